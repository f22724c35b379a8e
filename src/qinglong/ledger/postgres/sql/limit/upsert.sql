-- Purpose: store the capacity of groups
-- Locks: the definitions' advisory lock. Index: primary key. Fence: none: the newest word counts.
INSERT INTO limits (key, capacity)
SELECT v.key, v.capacity FROM json_to_recordset(%s::json) AS v (key text, capacity int)
ON CONFLICT (key) DO UPDATE SET capacity = excluded.capacity
