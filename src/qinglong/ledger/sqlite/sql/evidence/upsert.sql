-- Purpose: record an answer; the newest of a provider counts
-- Locks: the writer transaction. Index: primary key. Fence: (generation, version) of the Lease only grow.
INSERT INTO evidence (
  run_id, step, attempt, answer, provider, at_ms, detail, proof, generation, version
)
VALUES (
  ?, ?, ?, ?, ?, ?, ?, ?, ?, ?
)
ON CONFLICT (run_id, step, attempt, provider) DO UPDATE SET
  answer = excluded.answer, at_ms = excluded.at_ms, detail = excluded.detail, proof = excluded.proof,
  generation = excluded.generation, version = excluded.version
WHERE (excluded.generation, excluded.version) >= (evidence.generation, evidence.version)
