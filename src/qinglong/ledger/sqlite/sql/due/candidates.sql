-- Purpose: Runs that the retry step has to look at
-- Locks: none. Index: due_moment. Fence: none: the one writer holds the database.
SELECT run_id FROM due WHERE due_ms <= ? ORDER BY due_ms, run_id LIMIT ?
