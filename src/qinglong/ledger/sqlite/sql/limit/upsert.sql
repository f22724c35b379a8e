-- Purpose: set the capacity of a concurrency group
-- Locks: the writer transaction. Index: primary key. Fence: none: the one writer holds the database.
INSERT INTO limits (key, capacity) VALUES (?, ?)
ON CONFLICT (key) DO UPDATE SET capacity = excluded.capacity
