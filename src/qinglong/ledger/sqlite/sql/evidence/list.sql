-- Purpose: recorded answers about a Run's Attempts, newest last
-- Locks: the writer transaction. Index: primary key. Fence: none: the one writer holds the database.
SELECT
  run_id, step, attempt, answer, provider, at_ms, detail, proof, generation, version
FROM evidence WHERE run_id = ? ORDER BY attempt, generation, version, at_ms
