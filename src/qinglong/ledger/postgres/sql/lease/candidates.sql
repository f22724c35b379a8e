-- Purpose: Runs that recovery has to judge; new evidence has judge_ms = its moment, so it comes early. After a gap claims are left out
-- Locks: none. Index: none: live Leases only. Fence: none: the transaction judges each again.
SELECT leases.run_id FROM leases
WHERE leases.judge_ms <= (SELECT now_ms()) AND (NOT %s OR leases.expires_ms = 0 OR NOT EXISTS (
  SELECT 1 FROM attempts
  WHERE attempts.run_id = leases.run_id AND attempts.step = leases.step AND attempts.number = leases.attempt
    AND attempts.status = 'claimed'
))
ORDER BY leases.judge_ms LIMIT %s
