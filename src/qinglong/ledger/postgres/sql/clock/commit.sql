-- Purpose: commit; a missing reply means that the outcome is unknown (I12)
-- Locks: none. Index: none. Fence: none.
COMMIT
