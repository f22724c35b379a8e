-- Purpose: remove triggers
-- Locks: the definitions' advisory lock. Index: primary key. Fence: none: under the lock.
DELETE FROM triggers USING json_to_recordset(%s::json) AS v (trigger_id text) WHERE triggers.trigger_id = v.trigger_id
