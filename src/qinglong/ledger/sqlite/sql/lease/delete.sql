-- Purpose: end a Lease; its facts stand on the Attempt and in an Event
-- Locks: the writer transaction. Index: primary key. Fence: lease.generation and version as loaded.
DELETE FROM leases WHERE run_id = ? AND step = ? AND attempt = ? AND generation = ? AND version = ?
