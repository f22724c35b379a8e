-- Purpose: store Sessions; a registration replaces
-- Locks: the Session's advisory lock. Index: primary key. Fence: generation and version only grow.
WITH changed AS (
  INSERT INTO sessions (
    worker, session_id, generation, version, state, seq, expires_ms, journal_id, journal_revision,
    max_runs, host, capabilities, failures, paused_until_ms
  )
  SELECT
    v.worker, v.session_id, v.generation, v.version, v.state, v.seq, v.expires_ms, v.journal_id,
    v.journal_revision, v.max_runs, v.host, v.capabilities, v.failures, v.paused_until_ms
  FROM json_to_recordset(%s::json) AS v (
  worker text, session_id text, generation int, version int, state text, seq bigint,
  expires_ms bigint, journal_id text, journal_revision int, max_runs int, host text,
  capabilities json, failures int, paused_until_ms bigint
)
  ON CONFLICT (worker) DO UPDATE SET
    session_id = excluded.session_id, generation = excluded.generation, version = excluded.version,
    state = excluded.state, seq = excluded.seq, expires_ms = excluded.expires_ms,
    journal_id = excluded.journal_id, journal_revision = excluded.journal_revision,
    max_runs = excluded.max_runs, host = excluded.host, capabilities = excluded.capabilities,
    failures = excluded.failures, paused_until_ms = excluded.paused_until_ms
  WHERE excluded.generation > sessions.generation
    OR (excluded.generation = sessions.generation AND excluded.version > sessions.version)
  RETURNING 1
)
SELECT compare_and_set(count(*), %s, 'session/upsert') FROM changed
