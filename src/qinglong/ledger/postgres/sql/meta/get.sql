-- Purpose: a setting of this ledger
-- Locks: none. Index: primary key. Fence: none: a snapshot.
SELECT value FROM meta WHERE name = %s
