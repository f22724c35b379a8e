-- Purpose: remove a trigger that its task no longer has
-- Locks: the writer transaction. Index: primary key. Fence: none: the one writer holds the database.
DELETE FROM triggers WHERE trigger_id = ?
