-- Purpose: a worker name's tokens, newest first
-- Locks: none. Index: none: there are few. Fence: none: the one writer holds the database.
SELECT digest, worker, created_ms, by, revoked_ms FROM worker_tokens WHERE worker = ? ORDER BY created_ms DESC LIMIT ?
