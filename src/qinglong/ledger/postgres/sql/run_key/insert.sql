-- Purpose: remember an idempotency key
-- Locks: the key's advisory lock. Index: primary key. Fence: the primary key refuses a second one.
INSERT INTO run_keys (
  project, key, digest, run_id
)
SELECT
  v.project, v.key, v.digest, v.run_id
FROM json_to_recordset(%s::json) AS v (
  project text, key text, digest text, run_id text
)
