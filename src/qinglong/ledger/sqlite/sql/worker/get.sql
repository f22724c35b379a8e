-- Purpose: what an operator said about a worker name
-- Locks: the writer transaction. Index: primary key. Fence: none: the one writer holds the database.
SELECT name, cordon, at_ms, by, reason FROM workers WHERE name = ?
