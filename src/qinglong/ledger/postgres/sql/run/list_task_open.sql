-- Purpose: newest Runs of a task that are not final
-- Locks: none. Index: the small tables that hold open Runs only. Fence: none: a snapshot.
SELECT
  runs.run_id, runs.project, runs.task_id, runs.task, runs.revision, runs.cause, runs.trigger_id,
  runs.occurrence, runs.scheduled_ms, runs.created_ms, runs.policy, runs.gates, runs.priority,
  runs.placement, runs.start_by_ms, runs.deadline_ms, runs.state, runs.version, runs.held_by,
  runs.attempt, runs.barriers, runs.returns, runs.available_ms, runs.intent, runs.unreachable_ms,
  runs.reason, runs.exit_code, runs.signal, runs.finished_ms
FROM (
  SELECT run_id FROM queue UNION SELECT run_id FROM leases UNION SELECT run_id FROM due
  UNION SELECT run_id FROM places
) AS open
JOIN runs ON runs.run_id = open.run_id
WHERE runs.finished_ms IS NULL AND runs.task_id = %(task)s
  AND runs.run_id < %(before)s::uuid AND runs.run_id >= %(since)s::uuid
ORDER BY runs.run_id DESC LIMIT %(limit)s
