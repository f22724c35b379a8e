-- Purpose: every trigger of a project's tasks
-- Locks: taken before: the definitions' advisory lock. Index: unique keys of both. Fence: none.
SELECT
  triggers.trigger_id, triggers.task_id, triggers.name, triggers.spec, triggers.anchor_ms, triggers.cursor_ms,
  triggers.next_ms
FROM tasks JOIN triggers ON triggers.task_id = tasks.task_id
WHERE tasks.project = %s ORDER BY triggers.task_id, triggers.name
