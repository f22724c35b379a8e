-- Purpose: Runs that the retry step has to look at
-- Locks: none. Index: due_moment. Fence: none: the transaction judges each again.
SELECT run_id FROM due WHERE due_ms <= (SELECT now_ms()) ORDER BY due_ms, run_id LIMIT %s
