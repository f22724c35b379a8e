-- Purpose: a setting of this ledger
-- Locks: none. Index: primary key. Fence: none: the one writer holds the database.
SELECT value FROM meta WHERE name = ?
