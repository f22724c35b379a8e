-- Purpose: an occurrence admitted a Run, or was skipped; the key refuses a second answer (I6)
-- Locks: the writer transaction. Index: primary key. Fence: none: the one writer holds the database.
INSERT INTO occurrences (
  trigger_id, key, at_ms, last_ms, count, run_id, reason
)
VALUES (
  ?, ?, ?, ?, ?, ?, ?
)
