-- Purpose: make a Run offerable
-- Locks: the writer transaction. Index: primary key. Fence: none: the one writer holds the database.
INSERT INTO queue (
  placement, rank, run_id, available_ms
)
VALUES (
  ?, ?, ?, ?
)
