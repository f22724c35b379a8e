-- Purpose: newest Runs of a task that are not final
-- Locks: none. Index: runs_open. Fence: none: the one writer holds the database.
SELECT
  run_id, project, task_id, task, revision, cause, trigger_id, occurrence, scheduled_ms,
  created_ms, policy, gates, priority, placement, start_by_ms, deadline_ms, state, version,
  held_by, attempt, barriers, returns, available_ms, intent, unreachable_ms, reason, exit_code,
  signal, finished_ms
FROM runs
WHERE finished_ms IS NULL
  AND +task_id = :task AND run_id < :before AND run_id >= :since
ORDER BY run_id DESC LIMIT :limit
