-- Purpose: store a setting unless there is one
-- Locks: none. Index: primary key. Fence: the first word counts.
INSERT INTO meta (name, value) VALUES (%s, %s) ON CONFLICT DO NOTHING
