-- Purpose: Runs that need no look by themselves
-- Locks: the Run's advisory lock. Index: primary key. Fence: the row that was loaded.
WITH changed AS (
  DELETE FROM due WHERE run_id = ANY(%s::uuid[])
  RETURNING 1
)
SELECT compare_and_set(count(*), %s, 'due/delete') FROM changed
