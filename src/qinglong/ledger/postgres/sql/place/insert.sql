-- Purpose: Runs occupy or wait at gates
-- Locks: the gate's advisory lock. Index: primary key. Fence: the primary key.
INSERT INTO places (gate, waits, run_id)
SELECT v.gate, v.waits, v.run_id FROM json_to_recordset(%s::json) AS v (gate text, waits int, run_id uuid)
