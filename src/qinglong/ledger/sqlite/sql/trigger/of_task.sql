-- Purpose: the triggers of a task
-- Locks: the writer transaction. Index: unique (task_id, name). Fence: none: the one writer holds the database.
SELECT
  trigger_id, task_id, name, spec, anchor_ms, cursor_ms, next_ms
FROM triggers WHERE task_id = ? ORDER BY name
