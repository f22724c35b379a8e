-- Purpose: store what changed of live Leases
-- Locks: the Run's advisory lock. Index: primary key. Fence: lease.generation and version as loaded.
WITH changed AS (
  UPDATE leases SET
    version = v.version, floor = v.floor, worker = v.worker, session_id = v.session_id,
    session_generation = v.session_generation, offer_id = v.offer_id,
    token_digest = decode(v.token_digest, 'hex'), journal_id = v.journal_id,
    journal_revision = v.journal_revision, granted_ms = v.granted_ms, expires_ms = v.expires_ms,
    reported_ms = v.reported_ms, judge_ms = v.judge_ms
  FROM json_to_recordset(%s::json) AS v (
  run_id uuid, step text, attempt int, generation int, version int, floor int, worker text,
  session_id text, session_generation int, offer_id text, token_digest text, journal_id text,
  journal_revision int, granted_ms bigint, expires_ms bigint, reported_ms bigint, judge_ms bigint,
  was_version int
)
  WHERE leases.run_id = v.run_id
    AND leases.step = v.step
    AND leases.attempt = v.attempt
    AND leases.generation = v.generation
    AND leases.version = v.was_version
  RETURNING 1
)
SELECT compare_and_set(count(*), %s, 'lease/update') FROM changed
