-- Purpose: append to the audit trail
-- Locks: the writer transaction. Index: primary key. Fence: none: the one writer holds the database.
INSERT INTO audit (audit_id, at_ms, actor, action, subject, outcome, detail) VALUES (?, ?, ?, ?, ?, ?, ?)
