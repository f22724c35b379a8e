-- Purpose: newest occurrences of a trigger, for people
-- Locks: none. Index: primary key. Fence: none: the one writer holds the database.
SELECT
  trigger_id, key, at_ms, last_ms, count, run_id, reason
FROM occurrences WHERE trigger_id = ? ORDER BY key DESC LIMIT ?
