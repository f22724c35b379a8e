-- Purpose: held Runs whose gate has room: what a promotion missed
-- Locks: none. Index: places_waiting, primary key. Fence: none: the transaction judges each again.
SELECT (min(waiting.run_id::text))::uuid FROM places AS waiting
WHERE waiting.waits = 1
GROUP BY waiting.gate
HAVING (SELECT count(*) FROM places AS inside WHERE inside.gate = waiting.gate AND inside.waits = 0)
  < coalesce((SELECT capacity FROM limits WHERE key = waiting.gate), 1)
LIMIT %s
