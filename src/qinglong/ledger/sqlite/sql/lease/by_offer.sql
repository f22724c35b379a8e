-- Purpose: the Run whose live Lease was granted for an offer id
-- Locks: none. Index: unique (offer_id). Fence: none: the transaction judges each again.
SELECT run_id FROM leases WHERE offer_id = ?
