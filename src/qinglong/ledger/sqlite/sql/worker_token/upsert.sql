-- Purpose: store a token or its revocation, which is for good
-- Locks: the writer transaction. Index: primary key. Fence: a revoked token stays revoked.
INSERT INTO worker_tokens (digest, worker, created_ms, by, revoked_ms) VALUES (?, ?, ?, ?, ?)
ON CONFLICT (digest) DO UPDATE SET revoked_ms = coalesce(worker_tokens.revoked_ms, excluded.revoked_ms)
