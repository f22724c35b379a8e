-- Purpose: all Attempts of a Run, for people
-- Locks: none. Index: primary key. Fence: none: a snapshot.
SELECT
  run_id, step, number, status, created_ms, worker, session_id, offer_id,
  encode(token_digest, 'hex'), lease_generation, lease_version, lease_end, fence, claimed_ms,
  starting_ms, running_ms, ended_ms, timeout_at_ms, reason, exit_code, signal, log_bytes,
  log_dropped, log_digest
FROM attempts WHERE run_id = %s ORDER BY step, number
