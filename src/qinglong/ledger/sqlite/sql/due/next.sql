-- Purpose: the cycle's one question: the earliest moment of each step, and when a redelivery may be offered
-- Locks: none. Index: leases_judge, due_moment, triggers_next, queue_later. Fence: none: the one writer holds the database.
SELECT
  (SELECT min(judge_ms) FROM leases),
  (SELECT min(due_ms) FROM due),
  (SELECT min(next_ms) FROM triggers WHERE next_ms IS NOT NULL),
  (SELECT min(available_ms) FROM queue WHERE available_ms > 0 AND available_ms > ?1)
