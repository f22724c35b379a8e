-- Purpose: append Events
-- Locks: the Run's advisory lock. Index: primary key. Fence: the primary key: a version is written once (I1).
INSERT INTO events (
  run_id, version, at_ms, kind, data
)
SELECT
  v.run_id, v.version, v.at_ms, v.kind, v.data
FROM json_to_recordset(%s::json) AS v (
  run_id uuid, version int, at_ms bigint, kind text, data json
)
