-- Purpose: load a trigger
-- Locks: the writer transaction. Index: primary key. Fence: none: the one writer holds the database.
SELECT
  trigger_id, task_id, name, spec, anchor_ms, cursor_ms, next_ms
FROM triggers WHERE trigger_id = ?
