-- Purpose: Runs that may be offered now, by priority, then oldest first
-- Locks: none. Index: primary key, in its order. Fence: none: the one writer holds the database.
SELECT run_id FROM queue WHERE available_ms <= ? ORDER BY rank, run_id LIMIT ?
