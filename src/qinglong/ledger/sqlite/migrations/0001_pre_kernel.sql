-- The kernel: runs, attempts, live leases, events, gates, definitions.
--
-- Shape: what is hot and small stands apart from what is large and for ever. `queue`, `due`, `places` and
-- `leases` hold only rows of open Runs; an index on runs or attempts never holds a column that changes more
-- than twice. The CHECKs repeat domain/states.py; a test compares them.

CREATE TABLE meta (
  name TEXT PRIMARY KEY,
  value TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- Counters that never go back: the fence of QL_FENCE.
CREATE TABLE counters (
  name TEXT PRIMARY KEY,
  value INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO counters (name, value) VALUES ('fence', 0);

CREATE TABLE tasks (
  task_id TEXT PRIMARY KEY,
  project TEXT NOT NULL,
  name TEXT NOT NULL,
  source TEXT NOT NULL,
  revision INTEGER NOT NULL CHECK (revision >= 1),
  digest TEXT NOT NULL,
  created_ms INTEGER NOT NULL,
  removed_ms INTEGER,
  UNIQUE (project, name)
) STRICT, WITHOUT ROWID;

CREATE TABLE revisions (
  task_id TEXT NOT NULL REFERENCES tasks (task_id),
  revision INTEGER NOT NULL,
  digest TEXT NOT NULL,
  spec BLOB NOT NULL,
  created_ms INTEGER NOT NULL,
  PRIMARY KEY (task_id, revision)
) STRICT, WITHOUT ROWID;

CREATE TABLE triggers (
  trigger_id TEXT PRIMARY KEY,
  task_id TEXT NOT NULL REFERENCES tasks (task_id),
  name TEXT NOT NULL,
  spec BLOB NOT NULL,
  anchor_ms INTEGER NOT NULL,
  cursor_ms INTEGER NOT NULL,
  next_ms INTEGER,
  UNIQUE (task_id, name)
) STRICT, WITHOUT ROWID;
CREATE INDEX triggers_next ON triggers (next_ms) WHERE next_ms IS NOT NULL;

-- I6: an occurrence admits at most one Run; I9: a skipped one leaves a row.
CREATE TABLE occurrences (
  trigger_id TEXT NOT NULL,
  key TEXT NOT NULL,
  at_ms INTEGER NOT NULL,
  last_ms INTEGER NOT NULL,
  count INTEGER NOT NULL CHECK (count >= 1),
  run_id TEXT,
  reason TEXT NOT NULL,
  PRIMARY KEY (trigger_id, key),
  CHECK ((run_id IS NULL) = (reason <> ''))
) STRICT, WITHOUT ROWID;

CREATE INDEX occurrences_skipped ON occurrences (trigger_id, count) WHERE run_id IS NULL;

CREATE TABLE limits (
  key TEXT PRIMARY KEY,
  capacity INTEGER NOT NULL CHECK (capacity >= 1)
) STRICT, WITHOUT ROWID;

CREATE TABLE runs (
  run_id TEXT PRIMARY KEY,
  project TEXT NOT NULL,
  task_id TEXT NOT NULL,
  task TEXT NOT NULL,
  revision INTEGER NOT NULL,
  cause TEXT NOT NULL,
  trigger_id TEXT,
  occurrence TEXT,
  scheduled_ms INTEGER,
  created_ms INTEGER NOT NULL,
  policy BLOB NOT NULL,
  gates TEXT NOT NULL,
  priority INTEGER NOT NULL,
  placement TEXT NOT NULL,
  start_by_ms INTEGER,
  deadline_ms INTEGER,
  state TEXT NOT NULL,
  version INTEGER NOT NULL CHECK (version >= 1),
  held_by TEXT NOT NULL CHECK (held_by = '' OR held_by = 'overlap' OR held_by = 'concurrency'),
  attempt INTEGER NOT NULL CHECK (attempt >= 1),
  barriers INTEGER NOT NULL CHECK (barriers >= 0),
  returns INTEGER NOT NULL,
  available_ms INTEGER,
  intent BLOB,
  unreachable_ms INTEGER,
  reason TEXT NOT NULL,
  exit_code INTEGER,
  signal INTEGER,
  finished_ms INTEGER,
  CHECK ((held_by <> '') = (state = 'created')),
  CHECK (CASE WHEN finished_ms IS NULL
    THEN state IN ('created', 'queued', 'dispatching', 'running', 'retry_wait', 'lost')
    ELSE state IN ('succeeded', 'failed', 'cancelled', 'timed_out') END)
) STRICT, WITHOUT ROWID;
CREATE INDEX runs_task ON runs (task_id, run_id);
-- finished_ms stands for "final" in predicates: comparing one integer is cheaper than a list of words, and these
-- are evaluated at every update.
CREATE INDEX runs_open ON runs (run_id) WHERE finished_ms IS NULL;
CREATE INDEX runs_bad_task ON runs (task_id, state, run_id) WHERE finished_ms IS NOT NULL AND state <> 'succeeded';
CREATE INDEX runs_bad ON runs (state, run_id) WHERE finished_ms IS NOT NULL AND state <> 'succeeded';

-- I8: final is final, whatever asks for it.
CREATE TRIGGER runs_final BEFORE UPDATE OF state ON runs
  WHEN OLD.finished_ms IS NOT NULL AND NEW.state <> OLD.state
  BEGIN SELECT RAISE(ABORT, 'I8: a final run cannot change its state'); END;

CREATE TABLE attempts (
  run_id TEXT NOT NULL,
  step TEXT NOT NULL,
  number INTEGER NOT NULL CHECK (number >= 1),
  status TEXT NOT NULL,
  created_ms INTEGER NOT NULL,
  worker TEXT,
  session_id TEXT,
  offer_id TEXT,
  token_digest TEXT,
  lease_generation INTEGER NOT NULL,
  lease_version INTEGER NOT NULL,
  lease_end TEXT NOT NULL,
  fence INTEGER NOT NULL,
  claimed_ms INTEGER,
  starting_ms INTEGER,
  running_ms INTEGER,
  ended_ms INTEGER,
  timeout_at_ms INTEGER,
  reason TEXT NOT NULL,
  exit_code INTEGER,
  signal INTEGER,
  log_bytes INTEGER,
  log_dropped INTEGER,
  log_digest TEXT,
  PRIMARY KEY (run_id, step, number),
  CHECK (CASE WHEN ended_ms IS NULL
    THEN status IN ('claimed', 'starting', 'running')
    ELSE status IN ('succeeded', 'failed', 'cancelled', 'timed_out', 'lost') END)
) STRICT, WITHOUT ROWID;
-- I2: at most one Attempt of a Run's Step is not final.
CREATE UNIQUE INDEX attempts_live ON attempts (run_id, step) WHERE ended_ms IS NULL;

-- Live Leases only: the row leaves in the transaction that ends it, so `leased` needs no column.
CREATE TABLE leases (
  run_id TEXT NOT NULL,
  step TEXT NOT NULL,
  attempt INTEGER NOT NULL,
  generation INTEGER NOT NULL CHECK (generation >= 1),
  version INTEGER NOT NULL,
  floor INTEGER NOT NULL,
  worker TEXT NOT NULL,
  session_id TEXT NOT NULL,
  session_generation INTEGER NOT NULL,
  offer_id TEXT NOT NULL,
  token_digest TEXT NOT NULL,
  journal_id TEXT NOT NULL,
  journal_revision INTEGER NOT NULL,
  granted_ms INTEGER NOT NULL,
  expires_ms INTEGER NOT NULL,
  reported_ms INTEGER NOT NULL,
  judge_ms INTEGER NOT NULL,
  PRIMARY KEY (run_id, step, attempt),
  CHECK (floor BETWEEN 1 AND version)
) STRICT, WITHOUT ROWID;
CREATE INDEX leases_judge ON leases (judge_ms);

-- I5: an Attempt cannot become final while its Lease row stands.
CREATE TRIGGER attempts_leased BEFORE UPDATE OF status ON attempts
  WHEN NEW.ended_ms IS NOT NULL AND EXISTS (
    SELECT 1 FROM leases WHERE run_id = NEW.run_id AND step = NEW.step AND attempt = NEW.number)
  BEGIN SELECT RAISE(ABORT, 'I5: a final attempt cannot be leased'); END;

CREATE TABLE sessions (
  worker TEXT PRIMARY KEY,
  session_id TEXT NOT NULL,
  generation INTEGER NOT NULL CHECK (generation >= 1),
  version INTEGER NOT NULL,
  state TEXT NOT NULL CHECK (state IN ('online', 'draining', 'offline')),
  seq INTEGER NOT NULL,
  expires_ms INTEGER NOT NULL,
  journal_id TEXT NOT NULL,
  journal_revision INTEGER NOT NULL,
  max_runs INTEGER NOT NULL,
  host TEXT NOT NULL,
  capabilities BLOB NOT NULL
) STRICT, WITHOUT ROWID;

-- I1: dense from 1; run.version is the newest.
CREATE TABLE events (
  run_id TEXT NOT NULL,
  version INTEGER NOT NULL CHECK (version >= 1),
  at_ms INTEGER NOT NULL,
  kind TEXT NOT NULL,
  data BLOB NOT NULL,
  PRIMARY KEY (run_id, version)
) STRICT, WITHOUT ROWID;

-- Ready work. available_ms is 0 for "at once"; only redeliveries wait here.
CREATE TABLE queue (
  rank INTEGER NOT NULL, -- minus priority, so that the key's order is the order of offers
  run_id TEXT NOT NULL,
  placement TEXT NOT NULL,
  available_ms INTEGER NOT NULL,
  PRIMARY KEY (rank, run_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX queue_later ON queue (available_ms) WHERE available_ms > 0;

-- The next moment at which an open Run needs a look: retry, start_by, deadline; 0 for lost.
CREATE TABLE due (
  run_id TEXT PRIMARY KEY,
  due_ms INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX due_moment ON due (due_ms, run_id);

-- Who occupies (waits = 0) and who waits at (waits = 1) a gate.
CREATE TABLE places (
  gate TEXT NOT NULL,
  waits INTEGER NOT NULL CHECK (waits IN (0, 1)),
  run_id TEXT NOT NULL,
  PRIMARY KEY (gate, waits, run_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX places_waiting ON places (gate) WHERE waits = 1;

CREATE TABLE evidence (
  run_id TEXT NOT NULL,
  step TEXT NOT NULL,
  attempt INTEGER NOT NULL,
  answer TEXT NOT NULL CHECK (answer IN ('running', 'not_running', 'never_began', 'unknown')),
  provider TEXT NOT NULL,
  at_ms INTEGER NOT NULL,
  detail TEXT NOT NULL,
  proof TEXT NOT NULL,
  generation INTEGER NOT NULL,
  version INTEGER NOT NULL,
  PRIMARY KEY (run_id, step, attempt, provider)
) STRICT, WITHOUT ROWID;

-- I4: what a fenced holder said later, one row per Attempt and digest.
CREATE TABLE late_evidence (
  run_id TEXT NOT NULL,
  step TEXT NOT NULL,
  attempt INTEGER NOT NULL,
  digest TEXT NOT NULL,
  at_ms INTEGER NOT NULL,
  reason TEXT NOT NULL,
  body TEXT NOT NULL,
  PRIMARY KEY (run_id, step, attempt, digest)
) STRICT, WITHOUT ROWID;

-- Idempotency keys of admissions: repeating a request with its key finds the Run that it made.
CREATE TABLE run_keys (
  project TEXT NOT NULL,
  key TEXT NOT NULL,
  digest TEXT NOT NULL,
  run_id TEXT NOT NULL,
  PRIMARY KEY (project, key)
) STRICT, WITHOUT ROWID;
