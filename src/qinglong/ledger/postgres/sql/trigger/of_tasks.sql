-- Purpose: the triggers of tasks
-- Locks: none. Index: unique (task_id, name). Fence: none: a snapshot.
SELECT
  trigger_id, task_id, name, spec, anchor_ms, cursor_ms, next_ms
FROM triggers WHERE task_id = ANY(%s::text[]) ORDER BY task_id, name
