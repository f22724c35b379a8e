-- Purpose: Runs whose live Lease was granted for one of these offer ids (a JSON array)
-- Locks: none. Index: none: the table holds live Leases only. Fence: none: the transaction judges each again.
SELECT run_id FROM leases WHERE offer_id IN (SELECT value FROM json_each(?)) ORDER BY run_id
