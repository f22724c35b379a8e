-- Purpose: store task heads
-- Locks: the definitions' advisory lock. Index: primary key. Fence: none: under the lock.
INSERT INTO tasks (task_id, project, name, source, revision, digest, created_ms, removed_ms)
SELECT v.task_id, v.project, v.name, v.source, v.revision, v.digest, v.created_ms, v.removed_ms
FROM json_to_recordset(%s::json) AS v (
  task_id text, project text, name text, source text, revision int, digest text, created_ms bigint,
  removed_ms bigint
)
ON CONFLICT (task_id) DO UPDATE SET
  source = excluded.source, revision = excluded.revision, digest = excluded.digest,
  removed_ms = excluded.removed_ms
