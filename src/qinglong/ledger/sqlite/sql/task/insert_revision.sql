-- Purpose: store an immutable revision
-- Locks: the writer transaction. Index: primary key. Fence: none: the one writer holds the database.
INSERT INTO revisions (
  task_id, revision, digest, spec, created_ms
)
VALUES (
  ?, ?, ?, ?, ?
)
