-- Purpose: answer occurrences: each once (I6)
-- Locks: the trigger's advisory lock. Index: primary key. Fence: the primary key refuses a second one.
INSERT INTO occurrences (
  trigger_id, key, at_ms, last_ms, count, run_id, reason
)
SELECT
  v.trigger_id, v.key, v.at_ms, v.last_ms, v.count, v.run_id, v.reason
FROM json_to_recordset(%s::json) AS v (
  trigger_id text, key text, at_ms bigint, last_ms bigint, count int, run_id uuid, reason text
)
