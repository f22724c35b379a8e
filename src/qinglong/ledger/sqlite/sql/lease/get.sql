-- Purpose: load the live Lease of an Attempt
-- Locks: the writer transaction. Index: primary key. Fence: none: the one writer holds the database.
SELECT
  run_id, step, attempt, generation, version, floor, worker, session_id, session_generation,
  offer_id, token_digest, journal_id, journal_revision, granted_ms, expires_ms, reported_ms,
  judge_ms
FROM leases WHERE run_id = ? AND step = ? AND attempt = ?
