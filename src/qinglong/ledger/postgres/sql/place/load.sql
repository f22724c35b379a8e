-- Purpose: who occupies (0) and who waits at (1) these gates, oldest first, and the gates' capacities
-- Locks: taken before: the gates' advisory locks. Index: primary keys. Fence: none.
SELECT wanted.gate, coalesce(limits.capacity, 1), places.waits, places.run_id
FROM unnest(%s::text[]) AS wanted (gate)
LEFT JOIN limits ON limits.key = wanted.gate
LEFT JOIN places ON places.gate = wanted.gate
ORDER BY wanted.gate, places.waits, places.run_id
