-- Purpose: who occupies or waits at a gate, oldest first
-- Locks: none. Index: primary key. Fence: none: a snapshot.
SELECT run_id FROM places WHERE gate = %s AND waits = %s ORDER BY run_id LIMIT %s
