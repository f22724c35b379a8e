-- Purpose: ids within a range, newest first
-- Locks: none. Index: primary key. Fence: none: a snapshot.
SELECT run_id FROM runs WHERE run_id >= %s::uuid AND run_id <= %s::uuid ORDER BY run_id DESC LIMIT 3
