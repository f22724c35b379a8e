-- Purpose: append to the audit trail
-- Locks: none. Index: primary key. Fence: the primary key.
INSERT INTO audit (audit_id, at_ms, actor, action, subject, outcome, detail)
SELECT v.audit_id, v.at_ms, v.actor, v.action, v.subject, v.outcome, v.detail
FROM json_to_recordset(%s::json) AS v (
  audit_id text, at_ms bigint, actor text, action text, subject text, outcome text, detail text
)
