-- Purpose: find a task by its name
-- Locks: none. Index: unique (project, name). Fence: none: a snapshot.
SELECT
  tasks.task_id, tasks.project, tasks.name, tasks.source, tasks.revision, tasks.digest,
  tasks.created_ms, tasks.removed_ms, revisions.spec
FROM tasks JOIN revisions ON revisions.task_id = tasks.task_id AND revisions.revision = tasks.revision
WHERE tasks.project = %s AND tasks.name = %s
