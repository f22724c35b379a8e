-- Purpose: open Runs of removed tasks that no worker holds past its start barrier
-- Locks: none. Index: the small tables that hold open Runs only. Fence: none: the transaction judges each again.
SELECT runs.run_id
FROM (
  SELECT run_id FROM queue UNION SELECT run_id FROM leases UNION SELECT run_id FROM due
  UNION SELECT run_id FROM places
) AS open
JOIN runs ON runs.run_id = open.run_id
WHERE runs.finished_ms IS NULL AND runs.state NOT IN ('running', 'dispatching')
  AND runs.task_id IN (SELECT task_id FROM tasks WHERE removed_ms IS NOT NULL)
ORDER BY runs.run_id LIMIT %s
