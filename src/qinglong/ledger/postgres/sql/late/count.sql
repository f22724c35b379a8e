-- Purpose: how many refused reports of a Run are kept
-- Locks: none. Index: primary key. Fence: none: a snapshot.
SELECT count(*) FROM late_evidence WHERE run_id = %s
