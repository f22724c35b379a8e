-- Purpose: when the retry step looks at Runs next
-- Locks: the Run's advisory lock. Index: primary key. Fence: none: derived from the Run.
INSERT INTO due (run_id, due_ms)
SELECT v.run_id, v.due_ms FROM json_to_recordset(%s::json) AS v (run_id uuid, due_ms bigint)
ON CONFLICT (run_id) DO UPDATE SET due_ms = excluded.due_ms
