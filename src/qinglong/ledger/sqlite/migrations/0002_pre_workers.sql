-- Many machines: what operators say about worker names, their tokens, the audit trail, and a queue by placement.

-- A pull reads the few keys that its worker satisfies, each in the order of offers.
CREATE TABLE queue_by_placement (
  placement TEXT NOT NULL,
  rank INTEGER NOT NULL, -- minus priority, so that the key's order is the order of offers
  run_id TEXT NOT NULL,
  available_ms INTEGER NOT NULL,
  PRIMARY KEY (placement, rank, run_id)
) STRICT, WITHOUT ROWID;
INSERT INTO queue_by_placement (placement, rank, run_id, available_ms)
SELECT placement, rank, run_id, available_ms FROM queue;
DROP TABLE queue;
ALTER TABLE queue_by_placement RENAME TO queue;
CREATE INDEX queue_later ON queue (available_ms) WHERE available_ms > 0;

ALTER TABLE sessions ADD COLUMN failures INTEGER NOT NULL DEFAULT 0;
ALTER TABLE sessions ADD COLUMN paused_until_ms INTEGER NOT NULL DEFAULT 0;

CREATE TABLE workers (
  name TEXT PRIMARY KEY,
  cordon TEXT NOT NULL CHECK (cordon IN ('', 'cordoned', 'draining')),
  at_ms INTEGER NOT NULL,
  by TEXT NOT NULL,
  reason TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE worker_tokens (
  digest TEXT PRIMARY KEY,
  worker TEXT NOT NULL,
  created_ms INTEGER NOT NULL,
  by TEXT NOT NULL,
  revoked_ms INTEGER
) STRICT, WITHOUT ROWID;

CREATE TABLE audit (
  audit_id TEXT PRIMARY KEY,
  at_ms INTEGER NOT NULL,
  actor TEXT NOT NULL,
  action TEXT NOT NULL,
  subject TEXT NOT NULL,
  outcome TEXT NOT NULL CHECK (outcome IN ('done', 'refused')),
  detail TEXT NOT NULL
) STRICT, WITHOUT ROWID;
