-- Purpose: take Runs out of the queue
-- Locks: the Run's advisory lock. Index: primary key. Fence: the row that was loaded.
WITH changed AS (
  DELETE FROM queue
  USING json_to_recordset(%s::json) AS v (placement text, rank int, run_id uuid)
  WHERE queue.placement = v.placement AND queue.rank = v.rank AND queue.run_id = v.run_id
  RETURNING 1
)
SELECT compare_and_set(count(*), %s, 'queue/delete') FROM changed
