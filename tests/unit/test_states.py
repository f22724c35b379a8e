"""The state tables: as designed, the same in SQL, drawn in the docs, and nothing leaves them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import apsw
import pytest

import qinglong
from qinglong.domain import charts, states
from qinglong.errors import Damaged
from qinglong.ledger.sqlite.migrate import migrate

DESIGN = {
    "RUN": {
        "created": "queued, cancelled, timed_out",
        "queued": "created, dispatching, cancelled, timed_out",
        "dispatching": "queued, running, retry_wait, succeeded, failed, cancelled, timed_out, lost",
        "running": "retry_wait, succeeded, failed, cancelled, timed_out, lost",
        "retry_wait": "queued, created, failed, cancelled, timed_out",
        "lost": "retry_wait, failed, cancelled, timed_out",
    },
    "ATTEMPT": {
        "claimed": "starting, failed, cancelled, timed_out, lost",
        "starting": "running, succeeded, failed, cancelled, timed_out, lost",
        "running": "succeeded, failed, cancelled, timed_out, lost",
    },
    "LEASE": {"leased": "released, completed"},
    "SESSION": {"online": "draining, offline", "draining": "offline"},
}
"""Design section 4. One departure: a completion may come straight from the barrier, so that a Run may go from
dispatching to succeeded as its Attempt goes from starting."""
PACKAGE = Path(qinglong.__file__).parent
TABLES = {name: getattr(states, name) for name in DESIGN}


@pytest.mark.parametrize("name", DESIGN)
def test_the_tables_are_those_of_the_design(name):
    table = TABLES[name]
    wanted = {state: set(targets.split(", ")) for state, targets in DESIGN[name].items()}
    assert {state: set(targets) for state, targets in table.items() if targets} == wanted


@pytest.mark.parametrize("name", DESIGN)
def test_every_target_is_a_state_and_every_state_is_reached(name):
    table = TABLES[name]
    targets = {target for found in table.values() for target in found}
    assert targets <= table.keys()
    assert table.keys() - targets <= {"created", "claimed", "leased", "online"}


def test_i8_final_states_have_no_way_out_and_lost_is_final_for_attempts_only():
    assert {state for state, targets in states.RUN.items() if not targets} == states.RUN_FINAL
    assert {state for state, targets in states.ATTEMPT.items() if not targets} == states.ATTEMPT_FINAL
    assert {"lost"} == states.ATTEMPT_FINAL - states.RUN_FINAL
    assert states.RUN["lost"]


@pytest.mark.parametrize("name", DESIGN)
def test_check_allows_exactly_what_the_table_lists(name):
    table = TABLES[name]
    for before in table:
        for after in table:
            if before == after or after in table[before]:
                states.check(table, before, after, "run", "it")
                continue
            with pytest.raises(Damaged, match=f"cannot go from {before} to {after}"):
                states.check(table, before, after, "run", "it")


def _accepts(db: apsw.Connection, table: str, **values: Any) -> bool:
    """Whether the schema stores such a row."""
    columns = db.execute(f"SELECT name, type, \"notnull\" FROM pragma_table_info('{table}')").fetchall()
    zero = {"INTEGER": 1, "TEXT": "", "BLOB": b""}
    row = {name: values.get(name, zero[kind] if needed else None) for name, kind, needed in columns}
    marks = ", ".join("?" * len(row))
    try:
        with db:
            db.execute(f"INSERT INTO {table} VALUES ({marks})", tuple(row.values()))
            db.execute(f"DELETE FROM {table}")
    except apsw.ConstraintError:
        return False
    return True


@pytest.fixture
def db():
    connection = apsw.Connection(":memory:")
    migrate(connection, 0)
    yield connection
    connection.close()


def test_the_database_stores_exactly_the_states_of_a_run_and_final_ones_with_their_moment(db):
    for state in [*states.RUN, "", "paused", "RUNNING"]:
        for finished in (None, 5):
            held = "overlap" if state == "created" else ""
            lawful = state in states.RUN and (state in states.RUN_FINAL) == (finished is not None)
            assert _accepts(db, "runs", state=state, held_by=held, finished_ms=finished) == lawful, state


def test_the_database_stores_exactly_the_states_of_an_attempt_and_final_ones_with_their_moment(db):
    for status in [*states.ATTEMPT, "", "created"]:
        for ended in (None, 5):
            lawful = status in states.ATTEMPT and (status in states.ATTEMPT_FINAL) == (ended is not None)
            assert _accepts(db, "attempts", status=status, ended_ms=ended) == lawful, status


def test_the_database_stores_exactly_the_states_of_a_session(db):
    for state in [*states.SESSION, "", "gone"]:
        assert _accepts(db, "sessions", state=state) == (state in states.SESSION), state


def test_a_held_run_says_what_holds_it_and_no_other_run_does(db):
    for held in ["", *states.HELD_BY, "weather"]:
        for state in states.RUN.keys() - states.RUN_FINAL:
            lawful = held in {"", *states.HELD_BY} and (held != "") == (state == "created")
            assert _accepts(db, "runs", state=state, held_by=held) == lawful, (state, held)


def _run(db: apsw.Connection, state: str) -> None:
    finished = 5 if state in states.RUN_FINAL else None
    db.execute(
        "INSERT INTO runs VALUES (?, 'p', 't', 't', 1, 'manual', NULL, NULL, NULL, 1, x'', '', 0, '', NULL,"
        " NULL, ?, 1, ?, 1, 0, 0, NULL, NULL, NULL, '', NULL, NULL, ?)",
        (state, state, "overlap" if state == "created" else "", finished),
    )


def test_i8_the_database_itself_keeps_final_runs_final(db):
    for state in states.RUN:
        _run(db, state)
    for before in states.RUN:
        for after in states.RUN.keys() - {before}:
            statement = "UPDATE runs SET state = ?, held_by = ?, finished_ms = ? WHERE run_id = ?"
            values = (
                after,
                "overlap" if after == "created" else "",
                5 if after in states.RUN_FINAL else None,
            )
            if before in states.RUN_FINAL:
                with pytest.raises(apsw.ConstraintError, match="I8"):
                    db.execute(statement, (*values, before))
                continue
            db.execute("SAVEPOINT undone")
            db.execute(statement, (*values, before))
            db.execute("ROLLBACK TO undone; RELEASE undone")


def test_i2_the_database_itself_refuses_a_second_live_attempt(db):
    insert = (
        "INSERT INTO attempts (run_id, step, number, status, created_ms, lease_generation, lease_version,"
        " lease_end, fence, reason, ended_ms) VALUES ('r', '', ?, ?, 1, 0, 0, '', 0, '', ?)"
    )
    db.execute(insert, (1, "lost", 5))
    db.execute(insert, (2, "claimed", None))
    with pytest.raises(apsw.ConstraintError):
        db.execute(insert, (3, "claimed", None))


def test_i5_the_database_itself_refuses_an_ended_attempt_that_is_leased(db):
    db.execute(
        "INSERT INTO attempts (run_id, step, number, status, created_ms, lease_generation, lease_version,"
        " lease_end, fence, reason) VALUES ('r', '', 1, 'running', 1, 1, 1, '', 0, '')"
    )
    db.execute("INSERT INTO leases VALUES ('r', '', 1, 1, 1, 1, 'w', 's', 1, 'o', '', 'j', 1, 1, 1, 1, 1)")
    lose = "UPDATE attempts SET status = 'lost', ended_ms = 5 WHERE run_id = 'r'"
    with pytest.raises(apsw.ConstraintError, match="I5"):
        db.execute(lose)
    db.execute("DELETE FROM leases")
    db.execute(lose)


def test_the_statements_name_only_states_that_exist():
    known = {*states.RUN, *states.ATTEMPT, *states.SESSION}
    for path in (PACKAGE / "ledger/sqlite/sql").glob("*/*.sql"):
        text = path.read_text("utf-8")
        named = set(re.findall(r"\b(?:state|status) (?:=|<>) '(\w+)'", text))
        for found in re.findall(r"\b(?:state|status) (?:NOT )?IN \(([^)]*)\)", text):
            named |= set(re.findall(r"'(\w*)'", found))
        assert named <= known, path


def test_the_charts_in_the_docs_are_those_of_the_tables():
    committed = PACKAGE.parents[1] / "docs/states.md"
    assert committed.read_text("utf-8") == charts.page(), (
        "run: python -m qinglong.domain.charts > docs/states.md"
    )


@pytest.mark.parametrize("name", DESIGN)
def test_a_chart_draws_every_transition_once(name):
    table = TABLES[name]
    drawn = re.findall(r"^ +(\w+) --> (\w+)$", charts.chart(table, ""), re.M)
    assert sorted(drawn) == sorted((state, target) for state in table for target in table[state])
