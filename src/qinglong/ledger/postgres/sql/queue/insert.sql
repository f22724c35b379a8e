-- Purpose: make Runs offerable
-- Locks: the Run's advisory lock. Index: primary key. Fence: the primary key.
INSERT INTO queue (placement, rank, run_id, available_ms)
SELECT v.placement, v.rank, v.run_id, v.available_ms
FROM json_to_recordset(%s::json) AS v (placement text, rank int, run_id uuid, available_ms bigint)
