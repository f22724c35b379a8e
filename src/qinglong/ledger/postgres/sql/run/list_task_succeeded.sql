-- Purpose: newest Runs of a task that succeeded; most of its Runs do
-- Locks: none. Index: runs_task, in its order. Fence: none: a snapshot.
SELECT
  run_id, project, task_id, task, revision, cause, trigger_id, occurrence, scheduled_ms, created_ms,
  policy, gates, priority, placement, start_by_ms, deadline_ms, state, version, held_by, attempt,
  barriers, returns, available_ms, intent, unreachable_ms, reason, exit_code, signal, finished_ms
FROM runs WHERE task_id = %(task)s AND state = 'succeeded' AND run_id < %(before)s::uuid AND run_id >= %(since)s::uuid
ORDER BY run_id DESC LIMIT %(limit)s
