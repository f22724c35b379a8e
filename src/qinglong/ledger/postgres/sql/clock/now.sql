-- Purpose: the ledger's clock, read after the locks (I11)
-- Locks: none. Index: none. Fence: none.
SELECT now_ms()
