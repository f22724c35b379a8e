-- Purpose: a Run occupies or waits at a gate
-- Locks: the writer transaction. Index: primary key. Fence: none: the one writer holds the database.
INSERT INTO places (
  gate, waits, run_id
)
VALUES (
  ?, ?, ?
)
