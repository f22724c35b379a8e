-- Purpose: a Run that needs no look by itself
-- Locks: the writer transaction. Index: primary key. Fence: none: the one writer holds the database.
DELETE FROM due WHERE run_id = ?
