-- Purpose: load triggers
-- Locks: taken before: the triggers' advisory locks. Index: primary key. Fence: none: a snapshot.
SELECT
  trigger_id, task_id, name, spec, anchor_ms, cursor_ms, next_ms
FROM triggers WHERE trigger_id = ANY(%s::text[])
