-- Purpose: Runs with one placement key that may be offered now, by priority, then oldest first
-- Locks: none. Index: primary key, in its order. Fence: none: the one writer holds the database.
SELECT rank, run_id FROM queue WHERE placement = ? AND available_ms <= ? ORDER BY rank, run_id LIMIT ?
