-- Purpose: every live Lease of a worker name, whichever session wrote it
-- Locks: none. Index: none: the table holds live Leases only. Fence: none: the one writer holds the database.
SELECT
  run_id, step, attempt, generation, version, floor, worker, session_id, session_generation,
  offer_id, token_digest, journal_id, journal_revision, granted_ms, expires_ms, reported_ms,
  judge_ms
FROM leases WHERE worker = ? ORDER BY run_id
