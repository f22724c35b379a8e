-- Purpose: record answers: one row per Attempt and provider
-- Locks: the Run's advisory lock. Index: primary key. Fence: an answer about an older lease never replaces a newer one.
INSERT INTO evidence (run_id, step, attempt, answer, provider, at_ms, detail, proof, generation, version)
SELECT v.run_id, v.step, v.attempt, v.answer, v.provider, v.at_ms, v.detail, v.proof, v.generation, v.version
FROM json_to_recordset(%s::json) AS v (
  run_id uuid, step text, attempt int, answer text, provider text, at_ms bigint, detail text,
  proof text, generation int, version int
)
ON CONFLICT (run_id, step, attempt, provider) DO UPDATE SET
  answer = excluded.answer, at_ms = excluded.at_ms, detail = excluded.detail,
  proof = excluded.proof, generation = excluded.generation, version = excluded.version
WHERE (excluded.generation, excluded.version) >= (evidence.generation, evidence.version)
