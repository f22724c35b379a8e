-- Purpose: Runs leave their places at gates
-- Locks: the gate's advisory lock. Index: primary key. Fence: the rows that were loaded.
WITH changed AS (
  DELETE FROM places
  USING json_to_recordset(%s::json) AS v (gate text, waits int, run_id uuid)
  WHERE places.gate = v.gate AND places.waits = v.waits AND places.run_id = v.run_id
  RETURNING 1
)
SELECT compare_and_set(count(*), %s, 'place/delete') FROM changed
