-- Purpose: the newest Run of a task
-- Locks: none. Index: runs_task. Fence: none: a snapshot.
SELECT run_id FROM runs WHERE task_id = %s ORDER BY run_id DESC LIMIT 1
