-- Purpose: end Leases; their facts stand on the Attempts and in Events
-- Locks: the Run's advisory lock. Index: primary key. Fence: lease.generation and version as loaded.
WITH changed AS (
  DELETE FROM leases
  USING json_to_recordset(%s::json) AS v (run_id uuid, step text, attempt int, generation int, version int)
  WHERE leases.run_id = v.run_id AND leases.step = v.step AND leases.attempt = v.attempt
    AND leases.generation = v.generation AND leases.version = v.version
  RETURNING 1
)
SELECT compare_and_set(count(*), %s, 'lease/delete') FROM changed
