-- Purpose: a setting of this ledger, once
-- Locks: the writer transaction. Index: primary key. Fence: none: the one writer holds the database.
INSERT INTO meta (name, value) VALUES (?, ?) ON CONFLICT DO NOTHING
