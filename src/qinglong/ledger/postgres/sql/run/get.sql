-- Purpose: load a Run
-- Locks: none. Index: primary key. Fence: none: a snapshot.
SELECT
  run_id, project, task_id, task, revision, cause, trigger_id, occurrence, scheduled_ms, created_ms,
  policy, gates, priority, placement, start_by_ms, deadline_ms, state, version, held_by, attempt,
  barriers, returns, available_ms, intent, unreachable_ms, reason, exit_code, signal, finished_ms
FROM runs WHERE run_id = %s
