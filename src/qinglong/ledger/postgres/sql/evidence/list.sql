-- Purpose: recorded answers about Runs, oldest first
-- Locks: none. Index: primary key. Fence: none: a snapshot.
SELECT
  run_id, step, attempt, answer, provider, at_ms, detail, proof, generation, version
FROM evidence WHERE run_id = ANY(%s::uuid[]) ORDER BY run_id, attempt, generation, version, at_ms
