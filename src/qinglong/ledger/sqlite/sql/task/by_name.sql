-- Purpose: find a task by its name
-- Locks: none. Index: unique (project, name). Fence: none: the one writer holds the database.
SELECT task_id FROM tasks WHERE project = ? AND name = ?
