-- Purpose: whether these Events stand as they were written: how a commit without a reply came out (I12)
-- Locks: taken before: the Run's advisory lock. Index: primary key. Fence: none.
SELECT count(*)
FROM json_to_recordset(%s::json) AS v (run_id uuid, version int, at_ms bigint, kind text, data json)
JOIN events ON events.run_id = v.run_id AND events.version = v.version AND events.at_ms = v.at_ms
  AND events.kind = v.kind AND events.data::text = v.data::text
