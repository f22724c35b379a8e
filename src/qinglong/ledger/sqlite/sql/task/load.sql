-- Purpose: load task heads (ids as a JSON array) with the spec of their newest revision
-- Locks: the writer transaction. Index: primary keys. Fence: none: the one writer holds the database.
SELECT
  tasks.task_id, tasks.project, tasks.name, tasks.source, tasks.revision, tasks.digest,
  tasks.created_ms, tasks.removed_ms, revisions.spec
FROM json_each(?) AS wanted
JOIN tasks ON tasks.task_id = wanted.value
JOIN revisions ON revisions.task_id = tasks.task_id AND revisions.revision = tasks.revision
