-- Purpose: store what changed of Runs
-- Locks: the Run's advisory lock. Index: primary key. Fence: run.version, the version that was loaded.
WITH changed AS (
  UPDATE runs SET
    state = v.state, version = v.version, held_by = v.held_by, attempt = v.attempt,
    barriers = v.barriers, returns = v.returns, available_ms = v.available_ms, intent = v.intent,
    unreachable_ms = v.unreachable_ms, reason = v.reason, exit_code = v.exit_code,
    signal = v.signal, finished_ms = v.finished_ms
  FROM json_to_recordset(%s::json) AS v (
  run_id uuid, state text, version int, held_by text, attempt int, barriers int, returns int,
  available_ms bigint, intent json, unreachable_ms bigint, reason text, exit_code int, signal int,
  finished_ms bigint, was_version int
)
  WHERE runs.run_id = v.run_id
    AND runs.version = v.was_version
  RETURNING 1
)
SELECT compare_and_set(count(*), %s, 'run/update') FROM changed
