-- Purpose: capacity of a gate; absent: one
-- Locks: the writer transaction. Index: primary key. Fence: none: the one writer holds the database.
SELECT capacity FROM limits WHERE key = ?
