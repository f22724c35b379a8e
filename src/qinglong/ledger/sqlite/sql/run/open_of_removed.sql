-- Purpose: open Runs of removed tasks that no worker holds past its start barrier
-- Locks: none. Index: runs_open; the + keeps the history of removed tasks out. Fence: none: the transaction judges each again.
SELECT run_id FROM runs
WHERE finished_ms IS NULL
  AND state NOT IN ('running', 'dispatching')
  AND +task_id IN (SELECT task_id FROM tasks WHERE removed_ms IS NOT NULL)
ORDER BY run_id LIMIT ?
