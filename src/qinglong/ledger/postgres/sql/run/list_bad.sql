-- Purpose: newest Runs that ended in one unsuccessful state
-- Locks: none. Index: primary key of endings, in its order. Fence: none: a snapshot.
SELECT
  runs.run_id, runs.project, runs.task_id, runs.task, runs.revision, runs.cause, runs.trigger_id,
  runs.occurrence, runs.scheduled_ms, runs.created_ms, runs.policy, runs.gates, runs.priority,
  runs.placement, runs.start_by_ms, runs.deadline_ms, runs.state, runs.version, runs.held_by,
  runs.attempt, runs.barriers, runs.returns, runs.available_ms, runs.intent, runs.unreachable_ms,
  runs.reason, runs.exit_code, runs.signal, runs.finished_ms
FROM endings JOIN runs ON runs.run_id = endings.run_id
WHERE endings.state = %(state)s AND endings.project = %(project)s AND endings.run_id < %(before)s::uuid AND endings.run_id >= %(since)s::uuid
ORDER BY endings.run_id DESC LIMIT %(limit)s
