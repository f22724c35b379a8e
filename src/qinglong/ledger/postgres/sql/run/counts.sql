-- Purpose: open Runs by state and the oldest of each
-- Locks: none. Index: the small tables that hold open Runs only. Fence: none: a snapshot.
SELECT runs.state, count(*), min(runs.created_ms), count(runs.unreachable_ms), min(runs.unreachable_ms)
FROM (
  SELECT run_id FROM queue UNION SELECT run_id FROM leases UNION SELECT run_id FROM due
  UNION SELECT run_id FROM places
) AS open
JOIN runs ON runs.run_id = open.run_id
WHERE runs.finished_ms IS NULL
GROUP BY runs.state
