-- Purpose: how many live Leases a worker name holds, for its capacity
-- Locks: the writer transaction. Index: leases_worker. Fence: none: the one writer holds the database.
SELECT count(*) FROM leases WHERE worker = ?
