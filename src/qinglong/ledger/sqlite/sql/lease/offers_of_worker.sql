-- Purpose: offer ids of a worker name's live Leases: its capacity, and what it was granted before
-- Locks: the writer transaction. Index: none: the table holds live Leases only. Fence: none: the one writer holds the database.
SELECT offer_id FROM leases WHERE worker = ?
