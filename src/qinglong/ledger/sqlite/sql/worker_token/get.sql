-- Purpose: the worker name that a token stands for
-- Locks: none. Index: primary key. Fence: none: the one writer holds the database.
SELECT worker FROM worker_tokens WHERE digest = ? AND revoked_ms IS NULL
