-- Purpose: append an Event; the key refuses a second one of the same number (I1)
-- Locks: the writer transaction. Index: primary key. Fence: none: the one writer holds the database.
INSERT INTO events (
  run_id, version, at_ms, kind, data
)
VALUES (
  ?, ?, ?, ?, ?
)
