-- Purpose: load the task heads of triggers
-- Locks: taken before: a share of the definitions' advisory lock. Index: primary keys. Fence: none: a snapshot.
SELECT
  tasks.task_id, tasks.project, tasks.name, tasks.source, tasks.revision, tasks.digest,
  tasks.created_ms, tasks.removed_ms, revisions.spec
FROM tasks JOIN revisions ON revisions.task_id = tasks.task_id AND revisions.revision = tasks.revision
WHERE tasks.task_id IN (SELECT triggers.task_id FROM triggers WHERE triggers.trigger_id = ANY(%s::text[]))
