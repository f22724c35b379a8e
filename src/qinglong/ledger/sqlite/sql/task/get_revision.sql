-- Purpose: the spec that a Run pinned
-- Locks: none. Index: primary key. Fence: none: the one writer holds the database.
SELECT spec FROM revisions WHERE task_id = ? AND revision = ?
