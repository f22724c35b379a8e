-- Purpose: store a Session; a registration replaces it
-- Locks: the writer transaction. Index: primary key. Fence: generation and version only grow.
INSERT INTO sessions (
  worker, session_id, generation, version, state, seq, expires_ms, journal_id, journal_revision,
  max_runs, host, capabilities, failures, paused_until_ms
)
VALUES (
  ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?
)
ON CONFLICT (worker) DO UPDATE SET
  session_id = excluded.session_id, generation = excluded.generation, version = excluded.version,
  state = excluded.state, seq = excluded.seq, expires_ms = excluded.expires_ms,
  journal_id = excluded.journal_id, journal_revision = excluded.journal_revision,
  max_runs = excluded.max_runs, host = excluded.host, capabilities = excluded.capabilities,
  failures = excluded.failures, paused_until_ms = excluded.paused_until_ms
WHERE excluded.generation > sessions.generation
  OR (excluded.generation = sessions.generation AND excluded.version > sessions.version)
