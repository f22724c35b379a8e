-- Purpose: a Run leaves its place at a gate
-- Locks: the writer transaction. Index: primary key. Fence: none: the one writer holds the database.
DELETE FROM places WHERE gate = ? AND waits = ? AND run_id = ?
