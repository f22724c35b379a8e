-- Purpose: wait for the advisory locks of Runs, in one order everywhere
-- Locks: these. Index: none. Fence: none.
SELECT count(pg_advisory_xact_lock(ordered.key))
FROM (SELECT uuid_hash_extended(run_id, 0) AS key FROM unnest(%s::uuid[]) AS run_id ORDER BY 1 OFFSET 0) AS ordered
