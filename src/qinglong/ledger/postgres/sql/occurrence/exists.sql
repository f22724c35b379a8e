-- Purpose: which of these occurrences were answered
-- Locks: taken before: the triggers' advisory locks. Index: primary key. Fence: none.
SELECT occurrences.trigger_id, occurrences.key
FROM json_to_recordset(%s::json) AS v (trigger_id text, key text)
JOIN occurrences ON occurrences.trigger_id = v.trigger_id AND occurrences.key = v.key
