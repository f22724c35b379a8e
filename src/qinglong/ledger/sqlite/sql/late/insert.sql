-- Purpose: keep a refused report (I4), capped per Attempt
-- Locks: the writer transaction. Index: primary key. Fence: none: the one writer holds the database.
INSERT INTO late_evidence (
  run_id, step, attempt, digest, at_ms, reason, body
)
SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7
WHERE (SELECT count(*) FROM late_evidence WHERE run_id = ?1 AND step = ?2 AND attempt = ?3) < ?8
ON CONFLICT DO NOTHING
