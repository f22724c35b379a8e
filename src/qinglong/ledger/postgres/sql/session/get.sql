-- Purpose: load Sessions
-- Locks: taken before: the Sessions' advisory locks. Index: primary key. Fence: none: a snapshot.
SELECT
  worker, session_id, generation, version, state, seq, expires_ms, journal_id, journal_revision,
  max_runs, host, capabilities, failures, paused_until_ms
FROM sessions WHERE worker = ANY(%s::text[])
