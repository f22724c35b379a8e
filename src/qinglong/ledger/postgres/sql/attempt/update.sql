-- Purpose: store what changed of Attempts
-- Locks: the Run's advisory lock. Index: primary key. Fence: attempt.status and lease generation as loaded.
WITH changed AS (
  UPDATE attempts SET
    status = v.status, created_ms = v.created_ms, worker = v.worker, session_id = v.session_id,
    offer_id = v.offer_id, token_digest = decode(v.token_digest, 'hex'),
    lease_generation = v.lease_generation, lease_version = v.lease_version, lease_end = v.lease_end,
    fence = v.fence, claimed_ms = v.claimed_ms, starting_ms = v.starting_ms,
    running_ms = v.running_ms, ended_ms = v.ended_ms, timeout_at_ms = v.timeout_at_ms,
    reason = v.reason, exit_code = v.exit_code, signal = v.signal, log_bytes = v.log_bytes,
    log_dropped = v.log_dropped, log_digest = v.log_digest
  FROM json_to_recordset(%s::json) AS v (
  run_id uuid, step text, number int, status text, created_ms bigint, worker text, session_id text,
  offer_id text, token_digest text, lease_generation int, lease_version int, lease_end text,
  fence bigint, claimed_ms bigint, starting_ms bigint, running_ms bigint, ended_ms bigint,
  timeout_at_ms bigint, reason text, exit_code int, signal int, log_bytes bigint,
  log_dropped bigint, log_digest text, was_status text, was_generation int
)
  WHERE attempts.run_id = v.run_id
    AND attempts.step = v.step
    AND attempts.number = v.number
    AND attempts.status = v.was_status
    AND attempts.lease_generation = v.was_generation
  RETURNING 1
)
SELECT compare_and_set(count(*), %s, 'attempt/update') FROM changed
