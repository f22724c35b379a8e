-- Purpose: the live Lease of an Attempt
-- Locks: none. Index: primary key. Fence: none: a snapshot.
SELECT
  run_id, step, attempt, generation, version, floor, worker, session_id, session_generation,
  offer_id, encode(token_digest, 'hex'), journal_id, journal_revision, granted_ms, expires_ms,
  reported_ms, judge_ms
FROM leases WHERE run_id = %s AND step = %s AND attempt = %s
