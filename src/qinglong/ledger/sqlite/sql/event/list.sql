-- Purpose: Events of a Run after a version
-- Locks: none. Index: primary key. Fence: none: the one writer holds the database.
SELECT run_id, version, at_ms, kind, data FROM events
WHERE run_id = ? AND version > ? ORDER BY version LIMIT ?
