-- Purpose: how many occurrences of a task were skipped
-- Locks: none. Index: occurrences_skipped, by name: without statistics the primary key would be walked. Fence: none: the one writer holds the database.
SELECT coalesce(sum(count), 0) FROM occurrences INDEXED BY occurrences_skipped WHERE trigger_id IN (SELECT trigger_id FROM triggers WHERE task_id = ?) AND run_id IS NULL
