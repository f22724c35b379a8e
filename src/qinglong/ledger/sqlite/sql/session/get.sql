-- Purpose: load a worker's Session
-- Locks: the writer transaction. Index: primary key. Fence: none: the one writer holds the database.
SELECT
  worker, session_id, generation, version, state, seq, expires_ms, journal_id, journal_revision,
  max_runs, host, capabilities, failures, paused_until_ms
FROM sessions WHERE worker = ?
