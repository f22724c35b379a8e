-- Purpose: keep refused reports as late evidence (I4), a few per Attempt
-- Locks: the Run's advisory lock. Index: primary key. Fence: one row per Attempt and digest.
INSERT INTO late_evidence (run_id, step, attempt, digest, at_ms, reason, body)
SELECT v.run_id, v.step, v.attempt, v.digest, v.at_ms, v.reason, v.body
FROM json_to_recordset(%s::json) AS v (
  run_id uuid, step text, attempt int, digest text, at_ms bigint, reason text, body text
)
WHERE (
  SELECT count(*) FROM late_evidence AS kept
  WHERE kept.run_id = v.run_id AND kept.step = v.step AND kept.attempt = v.attempt
) < %s
ON CONFLICT DO NOTHING
