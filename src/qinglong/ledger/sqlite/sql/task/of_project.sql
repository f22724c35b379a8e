-- Purpose: every task head of a project with its spec
-- Locks: the writer transaction. Index: unique (project, name). Fence: none: the one writer holds the database.
SELECT
  tasks.task_id, tasks.project, tasks.name, tasks.source, tasks.revision, tasks.digest,
  tasks.created_ms, tasks.removed_ms, revisions.spec
FROM tasks JOIN revisions ON revisions.task_id = tasks.task_id AND revisions.revision = tasks.revision
WHERE tasks.project = ? ORDER BY tasks.name
