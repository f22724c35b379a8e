-- Purpose: store what an operator says about a worker name
-- Locks: the writer transaction. Index: primary key. Fence: none: the one writer holds the database.
INSERT INTO workers (name, cordon, at_ms, by, reason) VALUES (?, ?, ?, ?, ?)
ON CONFLICT (name) DO UPDATE SET
  cordon = excluded.cordon, at_ms = excluded.at_ms, by = excluded.by, reason = excluded.reason
