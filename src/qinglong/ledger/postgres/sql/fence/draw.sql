-- Purpose: numbers for QL_FENCE: blocks of 64 that nobody else gets
-- Locks: none. Index: none. Fence: the sequence never goes back.
SELECT nextval('fences') FROM generate_series(1, %s)
