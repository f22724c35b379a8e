-- Purpose: whether an occurrence was answered before
-- Locks: the writer transaction. Index: primary key. Fence: none: the one writer holds the database.
SELECT 1 FROM occurrences WHERE trigger_id = ? AND key = ?
