-- Purpose: the newest Run of a task
-- Locks: none. Index: runs_task. Fence: none: the one writer holds the database.
SELECT run_id FROM runs WHERE task_id = ? ORDER BY run_id DESC LIMIT 1
