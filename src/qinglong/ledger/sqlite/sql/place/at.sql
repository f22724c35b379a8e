-- Purpose: who occupies or waits at a gate, oldest first
-- Locks: the writer transaction. Index: primary key. Fence: none: the one writer holds the database.
SELECT run_id FROM places WHERE gate = ? AND waits = ? ORDER BY run_id LIMIT ?
