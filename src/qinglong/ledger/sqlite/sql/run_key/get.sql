-- Purpose: the Run that an idempotency key admitted
-- Locks: the writer transaction. Index: primary key. Fence: none: the one writer holds the database.
SELECT digest, run_id FROM run_keys WHERE project = ? AND key = ?
