-- Purpose: lock and load queued Runs that may be offered now: per placement key, by priority, then oldest first
-- Locks: tries the advisory lock of each; a Run that somebody else works on is left out. Index: primary key, in its order. Fence: what is written compares with what was loaded.
WITH ready AS MATERIALIZED (
  SELECT offered.placement, offered.rank, offered.run_id
  FROM unnest(%s::text[]) AS wanted (placement)
  CROSS JOIN LATERAL (
    SELECT ordered.placement, ordered.rank, ordered.run_id
    FROM (
      SELECT queue.placement, queue.rank, queue.run_id FROM queue
      WHERE queue.placement = wanted.placement AND queue.available_ms <= (SELECT now_ms())
      ORDER BY queue.rank, queue.run_id OFFSET 0
    ) AS ordered
    WHERE pg_try_advisory_xact_lock(uuid_hash_extended(ordered.run_id, 0))
    LIMIT %s
  ) AS offered
)
SELECT
  ready.placement, ready.rank,
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
  attempts.log_digest
FROM ready
JOIN runs ON runs.run_id = ready.run_id
JOIN attempts ON attempts.run_id = runs.run_id AND attempts.step = '' AND attempts.number = runs.attempt
