-- Purpose: every worker name that registered, that an operator spoke of or that has a token, with what it holds
-- Locks: none. Index: primary keys; leases and tokens are few. Fence: none: a snapshot.
SELECT
  names.name, coalesce(workers.cordon, ''), coalesce(workers.at_ms, 0), coalesce(workers.by, ''),
  coalesce(workers.reason, ''),
  (SELECT count(*) FROM leases WHERE leases.worker = names.name),
  (SELECT count(*) FROM worker_tokens WHERE worker_tokens.worker = names.name AND revoked_ms IS NULL)
FROM (
  SELECT name FROM workers UNION SELECT worker FROM sessions UNION SELECT worker FROM worker_tokens
) AS names
LEFT JOIN workers ON workers.name = names.name
ORDER BY names.name LIMIT %s
