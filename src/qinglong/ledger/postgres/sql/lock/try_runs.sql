-- Purpose: try the advisory locks of Runs; which were got
-- Locks: these. Index: none. Fence: none.
SELECT run_id FROM unnest(%s::uuid[]) AS run_id WHERE pg_try_advisory_xact_lock(uuid_hash_extended(run_id, 0))
