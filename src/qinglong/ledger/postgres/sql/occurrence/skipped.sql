-- Purpose: skipped occurrences of a task on record
-- Locks: none. Index: occurrences_skipped. Fence: none: a snapshot.
SELECT coalesce(sum(occurrences.count), 0)::bigint FROM triggers
JOIN occurrences ON occurrences.trigger_id = triggers.trigger_id AND occurrences.run_id IS NULL
WHERE triggers.task_id = %s
