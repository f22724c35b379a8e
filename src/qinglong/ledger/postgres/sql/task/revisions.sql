-- Purpose: specs that Runs pinned
-- Locks: none. Index: primary key. Fence: none: a revision never changes.
SELECT revisions.task_id, revisions.revision, revisions.spec
FROM json_to_recordset(%s::json) AS v (task_id text, revision int)
JOIN revisions ON revisions.task_id = v.task_id AND revisions.revision = v.revision
