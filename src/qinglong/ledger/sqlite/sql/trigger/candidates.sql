-- Purpose: triggers with a due occurrence, oldest first
-- Locks: none. Index: triggers_next. Fence: none: the one writer holds the database.
SELECT trigger_id FROM triggers WHERE next_ms IS NOT NULL AND next_ms <= ? ORDER BY next_ms LIMIT ?
