-- Purpose: a worker name's tokens, newest first
-- Locks: none. Index: none: there are few. Fence: none: a snapshot.
SELECT encode(digest, 'hex'), worker, created_ms, by, revoked_ms FROM worker_tokens WHERE worker = %s ORDER BY created_ms DESC LIMIT %s
