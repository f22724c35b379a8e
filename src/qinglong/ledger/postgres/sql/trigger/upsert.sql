-- Purpose: store triggers
-- Locks: the trigger's advisory lock, or the definitions'. Index: primary key. Fence: none: under the lock.
INSERT INTO triggers (trigger_id, task_id, name, spec, anchor_ms, cursor_ms, next_ms)
SELECT v.trigger_id, v.task_id, v.name, v.spec, v.anchor_ms, v.cursor_ms, v.next_ms
FROM json_to_recordset(%s::json) AS v (
  trigger_id text, task_id text, name text, spec text, anchor_ms bigint, cursor_ms bigint,
  next_ms bigint
)
ON CONFLICT (trigger_id) DO UPDATE SET
  task_id = excluded.task_id, name = excluded.name, spec = excluded.spec,
  anchor_ms = excluded.anchor_ms, cursor_ms = excluded.cursor_ms, next_ms = excluded.next_ms
