-- Purpose: offer ids of worker names' live Leases: their capacity, and what they were granted before
-- Locks: taken before: the Sessions' advisory locks. Index: leases_worker. Fence: none.
SELECT worker, offer_id FROM leases WHERE worker = ANY(%s::text[])
