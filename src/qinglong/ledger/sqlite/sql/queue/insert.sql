-- Purpose: make a Run offerable
-- Locks: the writer transaction. Index: primary key. Fence: none: the one writer holds the database.
INSERT INTO queue (
  rank, run_id, placement, available_ms
)
VALUES (
  ?, ?, ?, ?
)
