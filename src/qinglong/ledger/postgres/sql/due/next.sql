-- Purpose: the cycle's one question: the earliest moment of each step, when a redelivery may be offered, held Runs that a promotion missed, and the placement keys of queued Runs
-- Locks: none. Index: due_moment, triggers_next, queue_later, places_waiting, primary key of queue; leases are few. Fence: none: hints only.
SELECT
  now_ms(),
  (SELECT min(judge_ms) FROM leases),
  (SELECT min(due_ms) FROM due),
  (SELECT min(next_ms) FROM triggers WHERE next_ms IS NOT NULL),
  (SELECT min(available_ms) FROM queue WHERE available_ms > 0 AND available_ms > (SELECT now_ms())),
  EXISTS (
    SELECT 1 FROM places AS waiting
    WHERE waiting.waits = 1
      AND (SELECT count(*) FROM places AS inside WHERE inside.gate = waiting.gate AND inside.waits = 0)
        < coalesce((SELECT capacity FROM limits WHERE key = waiting.gate), 1)
  ),
  ARRAY(
    WITH RECURSIVE found (placement) AS (
      SELECT min(queue.placement) FROM queue
      UNION ALL
      SELECT (SELECT min(queue.placement) FROM queue WHERE queue.placement > found.placement)
      FROM found WHERE found.placement IS NOT NULL
    )
    SELECT placement FROM found WHERE placement IS NOT NULL LIMIT %s
  )
