-- Purpose: store a granted Lease
-- Locks: the writer transaction. Index: primary key. Fence: none: the one writer holds the database.
INSERT INTO leases (
  run_id, step, attempt, generation, version, floor, worker, session_id, session_generation,
  offer_id, token_digest, journal_id, journal_revision, granted_ms, expires_ms, reported_ms,
  judge_ms
)
VALUES (
  ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?
)
