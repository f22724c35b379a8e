-- Purpose: the worker name that a token stands for
-- Locks: none. Index: primary key. Fence: none: a snapshot.
SELECT worker FROM worker_tokens WHERE digest = decode(%s, 'hex') AND revoked_ms IS NULL
