-- Purpose: wait for advisory locks by name (Sessions, triggers, keys, gates), in one order everywhere
-- Locks: these. Index: none. Fence: none.
SELECT count(pg_advisory_xact_lock(ordered.key))
FROM (SELECT hashtextextended(name, 1) AS key FROM unnest(%s::text[]) AS name ORDER BY 1 OFFSET 0) AS ordered
