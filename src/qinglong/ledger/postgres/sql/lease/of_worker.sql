-- Purpose: every live Lease of a worker name, whichever session wrote it
-- Locks: none. Index: leases_worker. Fence: none: a snapshot.
SELECT
  run_id, step, attempt, generation, version, floor, worker, session_id, session_generation,
  offer_id, encode(token_digest, 'hex'), journal_id, journal_revision, granted_ms, expires_ms,
  reported_ms, judge_ms
FROM leases WHERE worker = %s ORDER BY run_id
