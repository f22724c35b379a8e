-- Purpose: try advisory locks by name; which were got
-- Locks: these. Index: none. Fence: none.
SELECT name FROM unnest(%s::text[]) AS name WHERE pg_try_advisory_xact_lock(hashtextextended(name, 1))
