-- Purpose: store a task head
-- Locks: the writer transaction. Index: primary key. Fence: none: the one writer holds the database.
INSERT INTO tasks (
  task_id, project, name, source, revision, digest, created_ms, removed_ms
)
VALUES (
  ?, ?, ?, ?, ?, ?, ?, ?
)
ON CONFLICT (task_id) DO UPDATE SET
  source = excluded.source, revision = excluded.revision, digest = excluded.digest,
  removed_ms = excluded.removed_ms
