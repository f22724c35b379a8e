-- Purpose: what an operator said about worker names
-- Locks: none. Index: primary key. Fence: none: a snapshot.
SELECT
  name, cordon, at_ms, by, reason
FROM workers WHERE name = ANY(%s::text[])
