-- Purpose: wait for an advisory lock by name that others may share
-- Locks: this. Index: none. Fence: none.
SELECT count(pg_advisory_xact_lock_shared(hashtextextended(%s, 1)))
