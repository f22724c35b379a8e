-- Purpose: begin a transaction; READ COMMITTED, so that every statement sees what was committed before it
-- Locks: none. Index: none. Fence: none.
BEGIN ISOLATION LEVEL READ COMMITTED
