-- Purpose: store what changed of a Run
-- Locks: the writer transaction. Index: primary key. Fence: run.version, the version that was loaded.
UPDATE runs SET
  state = ?, version = ?, held_by = ?, attempt = ?, barriers = ?, returns = ?, available_ms = ?,
  intent = ?, unreachable_ms = ?, reason = ?, exit_code = ?, signal = ?, finished_ms = ?
WHERE run_id = ? AND version = ?
