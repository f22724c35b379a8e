-- Purpose: load Runs, each with its newest Attempt and that Attempt's live Lease
-- Locks: taken before: advisory locks of what is loaded. Index: primary keys. Fence: what is written compares with what was loaded.
SELECT
  runs.run_id, runs.project, runs.task_id, runs.task, runs.revision, runs.cause, runs.trigger_id,
  runs.occurrence, runs.scheduled_ms, runs.created_ms, runs.policy, runs.gates, runs.priority,
  runs.placement, runs.start_by_ms, runs.deadline_ms, runs.state, runs.version, runs.held_by,
  runs.attempt, runs.barriers, runs.returns, runs.available_ms, runs.intent, runs.unreachable_ms,
  runs.reason, runs.exit_code, runs.signal, runs.finished_ms, attempts.run_id, attempts.step,
  attempts.number, attempts.status, attempts.created_ms, attempts.worker, attempts.session_id,
  attempts.offer_id, encode(attempts.token_digest, 'hex'), attempts.lease_generation,
  attempts.lease_version, attempts.lease_end, attempts.fence, attempts.claimed_ms,
  attempts.starting_ms, attempts.running_ms, attempts.ended_ms, attempts.timeout_at_ms,
  attempts.reason, attempts.exit_code, attempts.signal, attempts.log_bytes, attempts.log_dropped,
  attempts.log_digest, leases.run_id, leases.step, leases.attempt, leases.generation,
  leases.version, leases.floor, leases.worker, leases.session_id, leases.session_generation,
  leases.offer_id, encode(leases.token_digest, 'hex'), leases.journal_id, leases.journal_revision,
  leases.granted_ms, leases.expires_ms, leases.reported_ms, leases.judge_ms
FROM runs
LEFT JOIN attempts ON attempts.run_id = runs.run_id AND attempts.step = '' AND attempts.number = runs.attempt
LEFT JOIN leases ON leases.run_id = attempts.run_id AND leases.step = attempts.step
  AND leases.attempt = attempts.number
WHERE runs.run_id = ANY(%s::uuid[])
