-- Purpose: the newest ids, to find a short form among them
-- Locks: none. Index: primary key. Fence: none: the one writer holds the database.
SELECT run_id FROM runs ORDER BY run_id DESC LIMIT ?
