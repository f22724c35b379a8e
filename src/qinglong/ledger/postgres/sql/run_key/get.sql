-- Purpose: the Run that an idempotency key made
-- Locks: taken before: the key's advisory lock. Index: primary key. Fence: none.
SELECT digest, run_id FROM run_keys WHERE project = %s AND key = %s
