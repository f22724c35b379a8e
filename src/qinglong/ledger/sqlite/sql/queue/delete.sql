-- Purpose: take a Run out of the queue
-- Locks: the writer transaction. Index: primary key. Fence: none: the one writer holds the database.
DELETE FROM queue WHERE placement = ? AND rank = ? AND run_id = ?
