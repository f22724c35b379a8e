-- Purpose: who occupies (0) and who waits at (1) these gates (keys as a JSON array), oldest first
-- Locks: the writer transaction. Index: primary key. Fence: none: the one writer holds the database.
SELECT places.gate, places.waits, places.run_id
FROM json_each(?) AS wanted JOIN places ON places.gate = wanted.value
ORDER BY places.gate, places.waits, places.run_id
