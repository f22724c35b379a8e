-- Purpose: triggers with a due occurrence, oldest first
-- Locks: none. Index: triggers_next. Fence: none: the transaction judges each again.
SELECT trigger_id FROM triggers WHERE next_ms IS NOT NULL AND next_ms <= (SELECT now_ms()) ORDER BY next_ms LIMIT %s
