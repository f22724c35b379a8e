"""SQLite: every statement finds its rows by an index, on a database with many of them."""

from __future__ import annotations

import re

import apsw
import pytest

from qinglong.ledger.sqlite import statements
from qinglong.ledger.sqlite.migrate import migrate

EXCUSED = {
    # Tables of live Leases and of definitions are small; these read them rarely, or for people.
    "lease/by_offers": {"leases"},
    "lease/of_worker": {"leases"},
    "lease/offers_of_worker": {"leases"},
    "task/named": {"tasks"},
    "session/list": {"sessions"},
    "worker/list": {"names", "leases", "workers", "sessions", "worker_tokens"},
    "worker_token/of_worker": {"worker_tokens"},
    "run/open_of_removed": {"tasks"},
    # Walk the held Runs, gate by gate; nobody else is in that index.
    "place/sweep": {"places"},
}
"""Statements that walk a table or an index of it as a whole, each with its reason."""
RUNS = 20_000


@pytest.fixture(scope="module")
def db(tmp_path_factory):
    """Many finished Runs, few open ones. Never analysed, as in use."""
    made = apsw.Connection(str(tmp_path_factory.mktemp("plans") / "ledger.db"))
    made.execute("PRAGMA synchronous=OFF")
    migrate(made, 0)
    with made:
        made.execute(
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?)"
            " INSERT INTO runs SELECT printf('%08d', i), 'default', 'task-' || (i % 50), 'name', 1, 'cron', NULL,"
            " NULL, NULL, i, x'', 'g' || (i % 7), 0, '', NULL, NULL,"
            " iif(i % 1000 = 0, 'running', iif(i % 20 = 0, 'failed', 'succeeded')), 5, '', 1, 1, 0, NULL, NULL, NULL,"
            " '', 0, NULL, iif(i % 1000 = 0, NULL, i) FROM n",
            (RUNS,),
        )
        made.execute(
            "INSERT INTO attempts SELECT run_id, '', 1, state, 1, 'w', 's', 'o', 't', 1, 1, '', 1, 1, 1, 1,"
            " finished_ms, NULL, '', 0, NULL, 0, 0, '' FROM runs"
        )
        made.execute("INSERT INTO events SELECT run_id, 1, 1, 'admitted', x'7b7d' FROM runs")
        made.execute("INSERT INTO events SELECT run_id, 2, 1, 'completed', x'7b7d' FROM runs")
        made.execute("INSERT INTO places SELECT gates, 0, run_id FROM runs WHERE finished_ms IS NULL")
        made.execute("INSERT INTO due SELECT run_id, created_ms FROM runs WHERE finished_ms IS NULL")
        made.execute(
            "INSERT INTO occurrences SELECT 'trigger-' || (created_ms % 50), run_id, 1, 1, 1, run_id, '' FROM runs"
        )
        made.execute("INSERT INTO run_keys SELECT 'default', run_id, 'd', run_id FROM runs")
        made.execute(
            "INSERT INTO queue SELECT '', 0, run_id, created_ms % 2 * 5 FROM runs WHERE finished_ms IS NULL"
        )
        made.execute(
            "INSERT INTO tasks SELECT DISTINCT task_id, 'default', task_id, 'test', 1, 'd', 1, NULL FROM runs"
        )
        made.execute("INSERT INTO revisions SELECT task_id, 1, 'd', x'', 1 FROM tasks")
        made.execute(
            "INSERT INTO triggers SELECT 'trigger-' || task_id, task_id, 'cron', x'', 1, 1, 1 FROM tasks"
        )
    yield made
    made.close()


def values(text):
    """Something for each parameter."""
    named = dict.fromkeys(re.findall(r":(\w+)", text), "1")
    if named:
        return {**named, "limit": 5}
    numbered = [int(number) for number in re.findall(r"\?(\d+)", text)]
    count = max(numbered) if numbered else text.count("?")
    return tuple("[]" if "json_each(?)" in text and place == 0 else 1 for place in range(count))


def plan(db, name):
    text = statements.sql(name)
    return [row[3] for row in db.execute(f"EXPLAIN QUERY PLAN {text}", values(text))]


def test_every_statement_finds_its_rows_by_an_index(db):
    walked = {}
    for name in statements.names():
        for step in plan(db, name):
            scan = re.match(r"SCAN (\w+)", step)
            table = scan and {"waiting": "places", "inside": "places", "wanted": ""}.get(scan[1], scan[1])
            bounded = scan and _bounded(name, step)
            if table and table not in {"json_each", "CONSTANT"} and not bounded:
                walked.setdefault(name, set()).add(table)
    assert walked == EXCUSED


def _bounded(name, step):
    """Walks in the order of an index and stops at its LIMIT, or takes its first entry."""
    ordered = {
        "run/newest_ids": "SCAN runs",
        "audit/list": "SCAN audit",
        "queue/placements": "SCAN found",
        "due/next": r"SCAN (queue|triggers|due|leases) USING COVERING INDEX",
        "run/counts": "SCAN runs USING INDEX runs_open",
        "run/open_of_removed": "SCAN runs USING INDEX runs_open",
    }
    return name in ordered and re.match(ordered[name], step)


def test_no_statement_sorts_more_than_a_handful(db):
    sorts = {name for name in statements.names() for step in plan(db, name) if "TEMP B-TREE" in step}
    small = {
        "run/counts",  # open Runs by state
        "place/load",  # who stands at the gates of one transaction
        "evidence/list",  # a few answers about one Run
        "lease/by_offers",  # live Leases
        "lease/of_worker",
        "worker/list",  # worker names
        "worker_token/of_worker",
    }
    assert sorts <= small


def test_every_statement_has_its_header(db):
    for name in statements.names():
        text = (statements._FOLDER / f"{name}.sql").read_text()
        header = text.splitlines()[:2]
        assert header[0].startswith("-- Purpose: "), name
        assert re.match(r"-- Locks: .+\. Index: .+\. Fence: .+\.$", header[1]), name


def test_every_index_serves_a_statement_or_a_promise(db):
    used = {found for name in statements.names() for step in plan(db, name) for found in step.split()}
    promises = {"attempts_live"}
    indexes = {
        row[0] for row in db.execute("SELECT name FROM sqlite_schema WHERE type = 'index' AND sql <> ''")
    }
    assert indexes - used - promises == set()
