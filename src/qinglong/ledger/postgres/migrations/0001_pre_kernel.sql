-- The kernel on PostgreSQL: the same records as on SQLite, for many writers.
--
-- Shape: what is hot and small (queue, due, places, leases) stands apart from what is large and for ever (runs,
-- attempts, events). No changing column of runs or attempts stands in an index or its predicate, so their updates
-- stay on their page (HOT); the pages keep room for them. Open Runs are found through the small tables, Runs that
-- did not succeed through `endings`. The CHECKs repeat domain/states.py; a test compares them.

-- I11: the one clock; read it in a statement after the locks are held.
CREATE FUNCTION now_ms() RETURNS bigint LANGUAGE sql VOLATILE PARALLEL SAFE
  RETURN floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint;

-- Every write says how many rows it must change; one that misses undoes the whole transaction.
CREATE FUNCTION compare_and_set(changed bigint, wanted bigint, statement text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  IF changed <> wanted THEN
    RAISE EXCEPTION '%: a record is not as it was loaded', statement USING ERRCODE = 'QL001';
  END IF;
END $$;

CREATE TABLE meta (
  name text PRIMARY KEY,
  value text NOT NULL
);

-- Numbers for QL_FENCE never go back; each draw is a block of 64.
CREATE SEQUENCE fences INCREMENT 64 START 64;

CREATE TABLE tasks (
  task_id text PRIMARY KEY,
  project text NOT NULL,
  name text NOT NULL,
  source text NOT NULL,
  revision int NOT NULL CHECK (revision >= 1),
  digest text NOT NULL,
  created_ms bigint NOT NULL,
  removed_ms bigint,
  UNIQUE (project, name)
);

CREATE TABLE revisions (
  task_id text NOT NULL REFERENCES tasks (task_id),
  revision int NOT NULL,
  digest text NOT NULL,
  spec text NOT NULL,
  created_ms bigint NOT NULL,
  PRIMARY KEY (task_id, revision)
);

CREATE TABLE triggers (
  trigger_id text PRIMARY KEY,
  task_id text NOT NULL REFERENCES tasks (task_id),
  name text NOT NULL,
  spec text NOT NULL,
  anchor_ms bigint NOT NULL,
  cursor_ms bigint NOT NULL,
  next_ms bigint,
  UNIQUE (task_id, name)
);
CREATE INDEX triggers_next ON triggers (next_ms) WHERE next_ms IS NOT NULL;

-- I6: an occurrence admits at most one Run; I9: a skipped one leaves a row.
CREATE TABLE occurrences (
  trigger_id text NOT NULL,
  key text NOT NULL,
  at_ms bigint NOT NULL,
  last_ms bigint NOT NULL,
  count int NOT NULL CHECK (count >= 1),
  run_id uuid,
  reason text NOT NULL,
  PRIMARY KEY (trigger_id, key),
  CHECK ((run_id IS NULL) = (reason <> ''))
);
CREATE INDEX occurrences_skipped ON occurrences (trigger_id, count) WHERE run_id IS NULL;

CREATE TABLE limits (
  key text PRIMARY KEY,
  capacity int NOT NULL CHECK (capacity >= 1)
);

CREATE TABLE runs (
  run_id uuid PRIMARY KEY,
  project text NOT NULL,
  task_id text NOT NULL,
  task text NOT NULL,
  revision int NOT NULL,
  cause text NOT NULL,
  trigger_id text,
  occurrence text,
  scheduled_ms bigint,
  created_ms bigint NOT NULL,
  policy json NOT NULL,
  gates text[] NOT NULL,
  priority int NOT NULL,
  placement text NOT NULL,
  start_by_ms bigint,
  deadline_ms bigint,
  state text NOT NULL,
  version int NOT NULL CHECK (version >= 1),
  held_by text NOT NULL CHECK (held_by = '' OR held_by = 'overlap' OR held_by = 'concurrency'),
  attempt int NOT NULL CHECK (attempt >= 1),
  barriers int NOT NULL CHECK (barriers >= 0),
  returns int NOT NULL,
  available_ms bigint,
  intent json,
  unreachable_ms bigint,
  reason text NOT NULL,
  exit_code int,
  signal int,
  finished_ms bigint,
  CHECK ((held_by <> '') = (state = 'created')),
  CHECK (CASE WHEN finished_ms IS NULL
    THEN state IN ('created', 'queued', 'dispatching', 'running', 'retry_wait', 'lost')
    ELSE state IN ('succeeded', 'failed', 'cancelled', 'timed_out') END)
) WITH (fillfactor = 60);
CREATE INDEX runs_task ON runs (task_id, run_id);

-- I8: final is final, whatever asks for it.
CREATE FUNCTION final_is_final() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION 'I8: a final run cannot change its state' USING ERRCODE = 'check_violation';
END $$;
CREATE TRIGGER runs_final BEFORE UPDATE ON runs FOR EACH ROW
  WHEN (OLD.finished_ms IS NOT NULL AND NEW.state <> OLD.state) EXECUTE FUNCTION final_is_final();

-- Runs that did not succeed, for lists; a Run ends once.
CREATE TABLE endings (
  state text NOT NULL,
  run_id uuid NOT NULL,
  project text NOT NULL,
  task_id text NOT NULL,
  PRIMARY KEY (state, run_id)
);
CREATE INDEX endings_task ON endings (task_id, state, run_id);

CREATE TABLE attempts (
  run_id uuid NOT NULL,
  step text NOT NULL,
  number int NOT NULL CHECK (number >= 1),
  status text NOT NULL,
  created_ms bigint NOT NULL,
  worker text,
  session_id text,
  offer_id text,
  token_digest bytea,
  lease_generation int NOT NULL,
  lease_version int NOT NULL,
  lease_end text NOT NULL,
  fence bigint NOT NULL,
  claimed_ms bigint,
  starting_ms bigint,
  running_ms bigint,
  ended_ms bigint,
  timeout_at_ms bigint,
  reason text NOT NULL,
  exit_code int,
  signal int,
  log_bytes bigint,
  log_dropped bigint,
  log_digest text,
  PRIMARY KEY (run_id, step, number),
  CHECK (CASE WHEN ended_ms IS NULL
    THEN status IN ('claimed', 'starting', 'running')
    ELSE status IN ('succeeded', 'failed', 'cancelled', 'timed_out', 'lost') END)
) WITH (fillfactor = 50);

-- Live Leases only: the row leaves in the transaction that ends it, so `leased` needs no column.
CREATE TABLE leases (
  run_id uuid NOT NULL,
  step text NOT NULL,
  attempt int NOT NULL,
  generation int NOT NULL CHECK (generation >= 1),
  version int NOT NULL,
  floor int NOT NULL,
  worker text NOT NULL,
  session_id text NOT NULL,
  session_generation int NOT NULL,
  offer_id text NOT NULL,
  token_digest bytea NOT NULL,
  journal_id text NOT NULL,
  journal_revision int NOT NULL,
  granted_ms bigint NOT NULL,
  expires_ms bigint NOT NULL,
  reported_ms bigint NOT NULL,
  judge_ms bigint NOT NULL,
  PRIMARY KEY (run_id, step, attempt),
  CHECK (floor BETWEEN 1 AND version)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.0, autovacuum_vacuum_threshold = 2000);
CREATE INDEX leases_worker ON leases (worker);

-- I2: at most one Attempt of a Run's Step is not final. I5: an Attempt cannot become final while its Lease stands.
CREATE FUNCTION one_live_attempt() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF EXISTS (
    SELECT 1 FROM attempts
    WHERE run_id = NEW.run_id AND step = NEW.step AND number <> NEW.number AND ended_ms IS NULL
  ) THEN
    RAISE EXCEPTION 'I2: an attempt of this run is not final' USING ERRCODE = 'check_violation';
  END IF;
  RETURN NEW;
END $$;
CREATE TRIGGER attempts_one_live BEFORE INSERT ON attempts FOR EACH ROW
  WHEN (NEW.number > 1 AND NEW.ended_ms IS NULL) EXECUTE FUNCTION one_live_attempt();

CREATE FUNCTION ended_is_not_leased() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF EXISTS (
    SELECT 1 FROM leases WHERE run_id = NEW.run_id AND step = NEW.step AND attempt = NEW.number
  ) THEN
    RAISE EXCEPTION 'I5: a final attempt cannot be leased' USING ERRCODE = 'check_violation';
  END IF;
  RETURN NEW;
END $$;
CREATE TRIGGER attempts_leased BEFORE UPDATE ON attempts FOR EACH ROW
  WHEN (NEW.ended_ms IS NOT NULL AND OLD.ended_ms IS NULL) EXECUTE FUNCTION ended_is_not_leased();

CREATE TABLE sessions (
  worker text PRIMARY KEY,
  session_id text NOT NULL,
  generation int NOT NULL CHECK (generation >= 1),
  version int NOT NULL,
  state text NOT NULL CHECK (state IN ('online', 'draining', 'offline')),
  seq bigint NOT NULL,
  expires_ms bigint NOT NULL,
  journal_id text NOT NULL,
  journal_revision int NOT NULL,
  max_runs int NOT NULL,
  host text NOT NULL,
  capabilities json NOT NULL,
  failures int NOT NULL,
  paused_until_ms bigint NOT NULL
) WITH (fillfactor = 50);

CREATE TABLE workers (
  name text PRIMARY KEY,
  cordon text NOT NULL CHECK (cordon IN ('', 'cordoned', 'draining')),
  at_ms bigint NOT NULL,
  by text NOT NULL,
  reason text NOT NULL
);

CREATE TABLE worker_tokens (
  digest bytea PRIMARY KEY,
  worker text NOT NULL,
  created_ms bigint NOT NULL,
  by text NOT NULL,
  revoked_ms bigint
);

CREATE TABLE audit (
  audit_id text PRIMARY KEY,
  at_ms bigint NOT NULL,
  actor text NOT NULL,
  action text NOT NULL,
  subject text NOT NULL,
  outcome text NOT NULL CHECK (outcome IN ('done', 'refused')),
  detail text NOT NULL
);

-- I1: dense from 1; run.version is the newest.
CREATE TABLE events (
  run_id uuid NOT NULL,
  version int NOT NULL CHECK (version >= 1),
  at_ms bigint NOT NULL,
  kind text NOT NULL,
  data json NOT NULL,
  PRIMARY KEY (run_id, version)
);

-- Ready work. available_ms is 0 for "at once"; only redeliveries wait here.
CREATE TABLE queue (
  placement text NOT NULL,
  rank int NOT NULL, -- minus priority, so that the key's order is the order of offers
  run_id uuid NOT NULL,
  available_ms bigint NOT NULL,
  PRIMARY KEY (placement, rank, run_id)
) WITH (autovacuum_vacuum_scale_factor = 0.0, autovacuum_vacuum_threshold = 2000);
CREATE INDEX queue_later ON queue (available_ms) WHERE available_ms > 0;

-- The next moment at which an open Run needs a look: retry, start_by, deadline; 0 for lost.
CREATE TABLE due (
  run_id uuid PRIMARY KEY,
  due_ms bigint NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0.0, autovacuum_vacuum_threshold = 2000);
CREATE INDEX due_moment ON due (due_ms, run_id);

-- Who occupies (waits = 0) and who waits at (waits = 1) a gate.
CREATE TABLE places (
  gate text NOT NULL,
  waits int NOT NULL CHECK (waits IN (0, 1)),
  run_id uuid NOT NULL,
  PRIMARY KEY (gate, waits, run_id)
) WITH (autovacuum_vacuum_scale_factor = 0.0, autovacuum_vacuum_threshold = 2000);
CREATE INDEX places_waiting ON places (gate) WHERE waits = 1;

CREATE TABLE evidence (
  run_id uuid NOT NULL,
  step text NOT NULL,
  attempt int NOT NULL,
  answer text NOT NULL CHECK (answer IN ('running', 'not_running', 'never_began', 'unknown')),
  provider text NOT NULL,
  at_ms bigint NOT NULL,
  detail text NOT NULL,
  proof text NOT NULL,
  generation int NOT NULL,
  version int NOT NULL,
  PRIMARY KEY (run_id, step, attempt, provider)
);

-- I4: what a fenced holder said later, one row per Attempt and digest.
CREATE TABLE late_evidence (
  run_id uuid NOT NULL,
  step text NOT NULL,
  attempt int NOT NULL,
  digest text NOT NULL,
  at_ms bigint NOT NULL,
  reason text NOT NULL,
  body text NOT NULL,
  PRIMARY KEY (run_id, step, attempt, digest)
);

-- Idempotency keys of admissions: repeating a request with its key finds the Run that it made.
CREATE TABLE run_keys (
  project text NOT NULL,
  key text NOT NULL,
  digest text NOT NULL,
  run_id text NOT NULL,
  PRIMARY KEY (project, key)
);
