-- Purpose: every Session, for people
-- Locks: none. Index: primary key. Fence: none: a snapshot.
SELECT
  worker, session_id, generation, version, state, seq, expires_ms, journal_id, journal_revision,
  max_runs, host, capabilities, failures, paused_until_ms
FROM sessions ORDER BY worker LIMIT %s
