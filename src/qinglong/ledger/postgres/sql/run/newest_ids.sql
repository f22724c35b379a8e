-- Purpose: the newest ids, to find a short form among them
-- Locks: none. Index: primary key, in its order. Fence: none: a snapshot.
SELECT run_id FROM runs ORDER BY run_id DESC LIMIT %s
