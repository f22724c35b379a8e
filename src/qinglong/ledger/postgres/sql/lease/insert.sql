-- Purpose: store granted Leases
-- Locks: the Run's advisory lock. Index: primary key. Fence: the primary key refuses a second one.
INSERT INTO leases (
  run_id, step, attempt, generation, version, floor, worker, session_id, session_generation,
  offer_id, token_digest, journal_id, journal_revision, granted_ms, expires_ms, reported_ms,
  judge_ms
)
SELECT
  v.run_id, v.step, v.attempt, v.generation, v.version, v.floor, v.worker, v.session_id,
  v.session_generation, v.offer_id, decode(v.token_digest, 'hex'), v.journal_id, v.journal_revision,
  v.granted_ms, v.expires_ms, v.reported_ms, v.judge_ms
FROM json_to_recordset(%s::json) AS v (
  run_id uuid, step text, attempt int, generation int, version int, floor int, worker text,
  session_id text, session_generation int, offer_id text, token_digest text, journal_id text,
  journal_revision int, granted_ms bigint, expires_ms bigint, reported_ms bigint, judge_ms bigint
)
