-- Purpose: store admitted Runs
-- Locks: the Run's advisory lock. Index: primary key. Fence: the primary key refuses a second one.
INSERT INTO runs (
  run_id, project, task_id, task, revision, cause, trigger_id, occurrence, scheduled_ms, created_ms,
  policy, gates, priority, placement, start_by_ms, deadline_ms, state, version, held_by, attempt,
  barriers, returns, available_ms, intent, unreachable_ms, reason, exit_code, signal, finished_ms
)
SELECT
  v.run_id, v.project, v.task_id, v.task, v.revision, v.cause, v.trigger_id, v.occurrence,
  v.scheduled_ms, v.created_ms, v.policy, v.gates, v.priority, v.placement, v.start_by_ms,
  v.deadline_ms, v.state, v.version, v.held_by, v.attempt, v.barriers, v.returns, v.available_ms,
  v.intent, v.unreachable_ms, v.reason, v.exit_code, v.signal, v.finished_ms
FROM json_to_recordset(%s::json) AS v (
  run_id uuid, project text, task_id text, task text, revision int, cause text, trigger_id text,
  occurrence text, scheduled_ms bigint, created_ms bigint, policy json, gates text[], priority int,
  placement text, start_by_ms bigint, deadline_ms bigint, state text, version int, held_by text,
  attempt int, barriers int, returns int, available_ms bigint, intent json, unreachable_ms bigint,
  reason text, exit_code int, signal int, finished_ms bigint
)
