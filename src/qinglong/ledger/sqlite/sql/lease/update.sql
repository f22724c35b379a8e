-- Purpose: store what changed of a live Lease
-- Locks: the writer transaction. Index: primary key. Fence: lease.generation and version as loaded.
UPDATE leases SET
  version = ?, floor = ?, worker = ?, session_id = ?, session_generation = ?, offer_id = ?,
  token_digest = ?, journal_id = ?, journal_revision = ?, granted_ms = ?, expires_ms = ?,
  reported_ms = ?, judge_ms = ?
WHERE run_id = ? AND step = ? AND attempt = ? AND generation = ? AND version = ?
