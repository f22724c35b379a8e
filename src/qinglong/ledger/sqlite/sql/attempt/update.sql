-- Purpose: store what changed of an Attempt
-- Locks: the writer transaction. Index: primary key. Fence: attempt.status and lease numbers as loaded.
UPDATE attempts SET
  status = ?, created_ms = ?, worker = ?, session_id = ?, offer_id = ?, token_digest = ?,
  lease_generation = ?, lease_version = ?, lease_end = ?, fence = ?, claimed_ms = ?,
  starting_ms = ?, running_ms = ?, ended_ms = ?, timeout_at_ms = ?, reason = ?, exit_code = ?,
  signal = ?, log_bytes = ?, log_dropped = ?, log_digest = ?
WHERE run_id = ? AND step = ? AND number = ? AND status = ? AND lease_generation = ?
