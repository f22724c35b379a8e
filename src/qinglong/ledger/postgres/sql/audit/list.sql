-- Purpose: the newest of the audit trail
-- Locks: none. Index: primary key, in its order. Fence: none: a snapshot.
SELECT
  audit_id, at_ms, actor, action, subject, outcome, detail
FROM audit ORDER BY audit_id DESC LIMIT %s
