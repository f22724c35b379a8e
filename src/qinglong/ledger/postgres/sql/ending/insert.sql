-- Purpose: note Runs that did not succeed, to list them
-- Locks: the Run's advisory lock. Index: primary key. Fence: a Run ends once (I8).
INSERT INTO endings (state, run_id, project, task_id)
SELECT v.state, v.run_id, v.project, v.task_id
FROM json_to_recordset(%s::json) AS v (state text, run_id uuid, project text, task_id text)
