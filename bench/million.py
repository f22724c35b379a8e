"""A ledger with a long history: finished Runs with their Attempts, Events and occurrences, made inside SQLite.

The rows are what the product would have written: UUIDv7 ids in the order of their moments, 200 tasks in turn,
five Events a Run, 5 % failed. Written without waiting for the disk, by a connection that ends before the product
opens the file.
"""

from __future__ import annotations

import shutil
import time
from pathlib import Path

import apsw

from bench.report import Out

BYTES_PER_RUN = 3_000
"""Free space asked for; what a Run takes is reported."""
_SPACING_MS = 7_776
"""A million Runs in 90 days."""
_STEP = 50_000
_MADE = """
CREATE TEMP TABLE made AS
WITH RECURSIVE n(i) AS (SELECT :first UNION ALL SELECT i + 1 FROM n WHERE i < :last),
moments AS (SELECT i, :begin + i * :spacing AS ms FROM n)
SELECT
  i, ms, tt.task_id, tt.name, tt.trigger_id,
  substr(printf('%012x', ms), 1, 8) || '-' || substr(printf('%012x', ms), 9) || '-7'
    || substr(printf('%03x', i % 4096), 1, 3) || '-8' || substr(lower(hex(randomblob(2))), 1, 3) || '-'
    || lower(hex(randomblob(6))) AS run_id,
  substr(printf('%012x', ms), 1, 8) || '-' || substr(printf('%012x', ms), 9) || '-7'
    || substr(printf('%03x', (i + 1) % 4096), 1, 3) || '-9' || substr(lower(hex(randomblob(2))), 1, 3) || '-'
    || lower(hex(randomblob(6))) AS offer_id,
  lower(hex(randomblob(32))) AS digest,
  CASE WHEN i % 20 = 7 THEN 'failed' ELSE 'succeeded' END AS state,
  CASE WHEN i % 20 = 7 THEN 'exit code 1' ELSE '' END AS reason,
  CASE WHEN i % 20 = 7 THEN 1 ELSE 0 END AS code
FROM moments JOIN temp.named tt ON tt.n = i % :tasks
"""
_RUNS = """
INSERT INTO runs (
  run_id, project, task_id, task, revision, cause, trigger_id, occurrence, scheduled_ms, created_ms, policy,
  gates, priority, placement, start_by_ms, deadline_ms, state, version, held_by, attempt, barriers, returns,
  available_ms, intent, unreachable_ms, reason, exit_code, signal, finished_ms)
SELECT run_id, 'default', task_id, name, 1, 'cron', trigger_id, CAST(ms AS TEXT), ms, ms + 3,
  CAST('{}' AS BLOB), 'task:' || task_id, 0, '', NULL, NULL, state, 5, '', 1, 1, 0, NULL, NULL, NULL, reason,
  code, NULL, ms + 2400 FROM made ORDER BY run_id
"""
_ATTEMPTS = """
INSERT INTO attempts (
  run_id, step, number, status, created_ms, worker, session_id, offer_id, token_digest, lease_generation,
  lease_version, lease_end, fence, claimed_ms, starting_ms, running_ms, ended_ms, timeout_at_ms, reason,
  exit_code, signal, log_bytes, log_dropped, log_digest)
SELECT run_id, '', 1, state, ms + 3, 'local', :session, offer_id, digest, 1, 4, 'completed', i + 1, ms + 6,
  ms + 8, ms + 12, ms + 2400, NULL, reason, code, NULL, 6, 0, digest FROM made ORDER BY run_id
"""
_EVENTS = """
INSERT INTO events (run_id, version, at_ms, kind, data)
SELECT run_id, v.n, ms + v.after, v.kind, CAST(CASE v.n
  WHEN 1 THEN printf('{"task":"%s","revision":1,"cause":"cron","scheduled_ms":%d}', name, ms)
  WHEN 2 THEN '{"attempt":1,"worker":"local","generation":1}'
  WHEN 3 THEN '{"attempt":1}'
  WHEN 4 THEN printf('{"attempt":1,"pid":%d}', 1000 + i % 30000)
  ELSE printf('{"attempt":1,"status":"%s","exit_code":%d,"log_bytes":6}', state, code) END AS BLOB)
FROM made CROSS JOIN temp.five v ORDER BY run_id, v.n
"""
_OCCURRENCES = """
INSERT INTO occurrences (trigger_id, key, at_ms, last_ms, count, run_id, reason)
SELECT trigger_id, CAST(ms AS TEXT), ms, ms, 1, run_id, '' FROM made ORDER BY trigger_id, ms
"""
_FIVE = (
    (1, 3, "admitted"),
    (2, 6, "offered"),
    (3, 8, "starting"),
    (4, 12, "running"),
    (5, 2400, "completed"),
)


def grow(out: Out, data: Path, runs: int) -> None:
    """Add ``runs`` finished Runs of the tasks in ``data``'s ledger, the newest some minutes ago."""
    free = shutil.disk_usage(data).free
    if free < runs * BYTES_PER_RUN:
        raise RuntimeError(
            f"{data} has {free / 2**30:.1f} GiB left; {runs:,} runs need about "
            f"{runs * BYTES_PER_RUN / 2**30:.1f}: see --folder"
        )
    begun = time.monotonic()
    path = data / "ledger.db"
    db = apsw.Connection(str(path))
    try:
        db.execute("PRAGMA synchronous=OFF; PRAGMA cache_size=-524288; PRAGMA temp_store=MEMORY")
        _fill(db, runs)
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    finally:
        db.close()
    size = path.stat().st_size
    out.say(
        f"  history: {runs:,} runs in {time.monotonic() - begun:,.0f} s, {size / 2**20:,.0f} MiB, "
        f"{size / runs:,.0f} bytes a run"
    )


def _fill(db: apsw.Connection, runs: int) -> None:
    db.execute("CREATE TEMP TABLE five (n INTEGER, after INTEGER, kind TEXT)")
    db.executemany("INSERT INTO temp.five VALUES (?, ?, ?)", _FIVE)
    db.execute(
        "CREATE TEMP TABLE named AS SELECT row_number() OVER (ORDER BY task_id) - 1 AS n, task_id, name, "
        "substr(task_id, 1, 14) || '7' || substr(task_id, 16) AS trigger_id FROM tasks"
    )
    facts = {
        "begin": int(time.time() * 1000) - (runs + 100) * _SPACING_MS,
        "spacing": _SPACING_MS,
        "tasks": db.execute("SELECT count(*) FROM temp.named").fetchall()[0][0],
        "session": "0190aaaa-0000-7000-8000-00000000bbbb",
    }
    for first in range(0, runs, _STEP):
        values = {**facts, "first": first, "last": min(first + _STEP, runs) - 1}
        with db:
            db.execute("DROP TABLE IF EXISTS temp.made")
            for sql in (_MADE, _RUNS, _ATTEMPTS, _EVENTS, _OCCURRENCES):
                db.execute(sql, values)
