-- Purpose: record an answer; the newest of a provider counts
-- Locks: the writer transaction. Index: primary key. Fence: at_ms only grows.
INSERT INTO evidence (
  run_id, step, attempt, answer, provider, at_ms, detail, proof
)
VALUES (
  ?, ?, ?, ?, ?, ?, ?, ?
)
ON CONFLICT (run_id, step, attempt, provider) DO UPDATE SET
  answer = excluded.answer, at_ms = excluded.at_ms, detail = excluded.detail, proof = excluded.proof
WHERE excluded.at_ms >= evidence.at_ms
