-- Purpose: Events of a Run, oldest first
-- Locks: none. Index: primary key. Fence: none: a snapshot.
SELECT
  run_id, version, at_ms, kind, data
FROM events WHERE run_id = %s AND version > %s ORDER BY version LIMIT %s
