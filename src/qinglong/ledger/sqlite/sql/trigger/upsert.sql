-- Purpose: store a trigger with its cursor
-- Locks: the writer transaction. Index: primary key. Fence: none: the one writer holds the database.
INSERT INTO triggers (
  trigger_id, task_id, name, spec, anchor_ms, cursor_ms, next_ms
)
VALUES (
  ?, ?, ?, ?, ?, ?, ?
)
ON CONFLICT (trigger_id) DO UPDATE SET
  spec = excluded.spec, anchor_ms = excluded.anchor_ms, cursor_ms = excluded.cursor_ms,
  next_ms = excluded.next_ms
