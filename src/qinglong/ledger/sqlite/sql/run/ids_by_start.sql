-- Purpose: ids with a given start, newest first
-- Locks: none. Index: primary key. Fence: none: the one writer holds the database.
SELECT run_id FROM runs WHERE run_id >= ?1 AND run_id < ?2 ORDER BY run_id DESC LIMIT 3
