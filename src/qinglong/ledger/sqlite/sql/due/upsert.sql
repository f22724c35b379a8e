-- Purpose: when the retry step looks at a Run next
-- Locks: the writer transaction. Index: primary key. Fence: none: the one writer holds the database.
INSERT INTO due (run_id, due_ms) VALUES (?, ?)
ON CONFLICT (run_id) DO UPDATE SET due_ms = excluded.due_ms
