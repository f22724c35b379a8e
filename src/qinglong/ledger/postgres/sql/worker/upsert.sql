-- Purpose: store what an operator says about a worker name
-- Locks: the Session's advisory lock. Index: primary key. Fence: none: the newest word counts.
INSERT INTO workers (name, cordon, at_ms, by, reason)
SELECT v.name, v.cordon, v.at_ms, v.by, v.reason
FROM json_to_recordset(%s::json) AS v (
  name text, cordon text, at_ms bigint, by text, reason text
)
ON CONFLICT (name) DO UPDATE SET
  cordon = excluded.cordon, at_ms = excluded.at_ms, by = excluded.by, reason = excluded.reason
