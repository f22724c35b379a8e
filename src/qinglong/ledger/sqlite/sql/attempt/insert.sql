-- Purpose: store a pristine Attempt
-- Locks: the writer transaction. Index: primary key. Fence: none: the one writer holds the database.
INSERT INTO attempts (
  run_id, step, number, status, created_ms, worker, session_id, offer_id, token_digest,
  lease_generation, lease_version, lease_end, fence, claimed_ms, starting_ms, running_ms, ended_ms,
  timeout_at_ms, reason, exit_code, signal, log_bytes, log_dropped, log_digest
)
VALUES (
  ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?
)
