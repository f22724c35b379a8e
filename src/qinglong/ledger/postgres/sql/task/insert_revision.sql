-- Purpose: store immutable revisions
-- Locks: the definitions' advisory lock. Index: primary key. Fence: the primary key refuses a second one.
INSERT INTO revisions (
  task_id, revision, digest, spec, created_ms
)
SELECT
  v.task_id, v.revision, v.digest, v.spec, v.created_ms
FROM json_to_recordset(%s::json) AS v (
  task_id text, revision int, digest text, spec text, created_ms bigint
)
