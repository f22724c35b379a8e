-- Purpose: Runs that recovery has to judge; new evidence has judge_ms = its moment, so it comes early
-- Locks: none. Index: leases_judge. Fence: none: the one writer holds the database.
SELECT run_id FROM leases WHERE judge_ms <= ? ORDER BY judge_ms LIMIT ?
