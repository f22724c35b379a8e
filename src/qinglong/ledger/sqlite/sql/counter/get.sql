-- Purpose: the newest fence number
-- Locks: the writer transaction. Index: primary key. Fence: none: the one writer holds the database.
SELECT value FROM counters WHERE name = 'fence'
