-- Purpose: open Runs by state and the oldest of each
-- Locks: none. Index: runs_open. Fence: none: the one writer holds the database.
SELECT state, count(*), min(created_ms), count(unreachable_ms), min(unreachable_ms) FROM runs WHERE finished_ms IS NULL GROUP BY state
