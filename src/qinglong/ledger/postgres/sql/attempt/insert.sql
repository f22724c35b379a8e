-- Purpose: store pristine Attempts
-- Locks: the Run's advisory lock. Index: primary key. Fence: the trigger attempts_one_live (I2).
INSERT INTO attempts (
  run_id, step, number, status, created_ms, worker, session_id, offer_id, token_digest,
  lease_generation, lease_version, lease_end, fence, claimed_ms, starting_ms, running_ms, ended_ms,
  timeout_at_ms, reason, exit_code, signal, log_bytes, log_dropped, log_digest
)
SELECT
  v.run_id, v.step, v.number, v.status, v.created_ms, v.worker, v.session_id, v.offer_id,
  decode(v.token_digest, 'hex'), v.lease_generation, v.lease_version, v.lease_end, v.fence,
  v.claimed_ms, v.starting_ms, v.running_ms, v.ended_ms, v.timeout_at_ms, v.reason, v.exit_code,
  v.signal, v.log_bytes, v.log_dropped, v.log_digest
FROM json_to_recordset(%s::json) AS v (
  run_id uuid, step text, number int, status text, created_ms bigint, worker text, session_id text,
  offer_id text, token_digest text, lease_generation int, lease_version int, lease_end text,
  fence bigint, claimed_ms bigint, starting_ms bigint, running_ms bigint, ended_ms bigint,
  timeout_at_ms bigint, reason text, exit_code int, signal int, log_bytes bigint,
  log_dropped bigint, log_digest text
)
