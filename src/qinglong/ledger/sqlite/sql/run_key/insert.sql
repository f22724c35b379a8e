-- Purpose: bind an idempotency key to its Run
-- Locks: the writer transaction. Index: primary key. Fence: none: the one writer holds the database.
INSERT INTO run_keys (project, key, digest, run_id) VALUES (?, ?, ?, ?)
