-- Purpose: advance the fence counter; it never goes back
-- Locks: the writer transaction. Index: primary key. Fence: value only grows.
UPDATE counters SET value = ?1 WHERE name = 'fence' AND value < ?1
