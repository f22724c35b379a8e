-- Purpose: placement keys of queued Runs, one jump of the index each
-- Locks: none. Index: primary key. Fence: none: the one writer holds the database.
WITH RECURSIVE found (placement) AS (
  SELECT min(placement) FROM queue
  UNION ALL
  SELECT (SELECT min(queue.placement) FROM queue WHERE queue.placement > found.placement)
  FROM found WHERE found.placement IS NOT NULL
)
SELECT placement FROM found WHERE placement IS NOT NULL LIMIT ?
