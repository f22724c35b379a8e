-- Purpose: store a token or its revocation, which is for good
-- Locks: the Session's advisory lock. Index: primary key. Fence: a revoked token stays revoked.
INSERT INTO worker_tokens (digest, worker, created_ms, by, revoked_ms)
SELECT decode(v.digest, 'hex'), v.worker, v.created_ms, v.by, v.revoked_ms
FROM json_to_recordset(%s::json) AS v (
  digest text, worker text, created_ms bigint, by text, revoked_ms bigint
)
ON CONFLICT (digest) DO UPDATE SET revoked_ms = coalesce(worker_tokens.revoked_ms, excluded.revoked_ms)
