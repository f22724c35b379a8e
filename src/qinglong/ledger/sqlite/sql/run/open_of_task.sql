-- Purpose: Runs of a task that have not started, for its removal
-- Locks: the writer transaction. Index: runs_open. Fence: none: the one writer holds the database.
SELECT run_id FROM runs WHERE state IN ('created', 'queued', 'dispatching', 'running', 'retry_wait', 'lost') AND task_id = ?
