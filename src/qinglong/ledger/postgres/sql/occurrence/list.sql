-- Purpose: the newest occurrences of a trigger
-- Locks: none. Index: primary key. Fence: none: a snapshot.
SELECT
  trigger_id, key, at_ms, last_ms, count, run_id, reason
FROM occurrences WHERE trigger_id = %s ORDER BY key DESC LIMIT %s
