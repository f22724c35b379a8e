"""What a million finished Runs cost: query plans, the hot path, lists."""

from __future__ import annotations

import itertools
import time
from pathlib import Path
from statistics import median

import apsw
import apsw.ext

from bench import million, steps
from bench.measure import circumstances, percentile
from bench.report import Out
from bench.rig import Rig, rig, tasks
from qinglong.domain import states
from qinglong.ledger.port import RunFilter
from qinglong.ledger.sqlite import statements
from qinglong.limits import DAY

BATCH = 64
"""Runs a transaction here."""

_TASKS = 200
_RUNS = 1_000_000
_SHOWN = 5
"""Kinds of lists that are named: the slowest."""
KEYS = ("history_1m_plan_same", "history_1m_time_ratio", "history_1m_list_ms_p95")


async def run(out: Out, folder: Path, quick: bool) -> None:
    """One ledger without history and one with; used for all three figures."""
    runs = 5_000 if quick else _RUNS
    files = tasks(_TASKS)
    long = folder / "history-long"
    async with rig(long, files):
        pass
    million.grow(out, long, runs)
    async with rig(folder / "history-none", files) as empty, rig(long, files) as full:
        if out.wanted(KEYS[0]):
            out.figure(KEYS[0], _same_plans(out, empty, full))
        if out.wanted(KEYS[2]):
            out.figure(KEYS[2], await _lists(out, full, 5 if quick else 40))
        if out.wanted(KEYS[1]):
            out.figure(KEYS[1], await _ratio(out, empty, full, *((2, 2) if quick else (15, 20))))


def _same_plans(out: Out, empty: Rig, full: Rig) -> float:
    first, second = _plans(empty), _plans(full)
    for name, plan in first.items():
        if plan != second[name]:
            out.note(KEYS[0], f"{name}: {plan} became {second[name]}")
    out.note(KEYS[0], f"{len(first)} statements compared")
    return float(first == second)


def _plans(of: Rig) -> dict[str, list[str]]:
    db = apsw.Connection(str(of.folder / "ledger.db"), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        return {name: _plan(db, statements.sql(name)) for name in statements.names()}
    finally:
        db.close()


def _plan(db: apsw.Connection, sql: str) -> list[str]:
    """Nothing is executed. Every parameter is NULL: plans do not depend on values here."""
    details: list[str] = []

    def detail(_cursor: object, row: tuple[int, int, int, str]) -> None:
        details.append(row[3])

    names = apsw.ext.query_info(db, sql).bindings_names
    values = {name: None for name in names if name} or (None,) * len(names)
    cursor = db.cursor()
    cursor.row_trace = detail
    cursor.execute("EXPLAIN QUERY PLAN " + sql, values).fetchall()
    return details


async def _ratio(out: Out, empty: Rig, full: Rig, times: int, batches: int) -> float:
    """Time per Run with history over without, each a median; repetitions take turns."""
    took: dict[str, list[float]] = {"without": [], "with": []}
    callers = {"without": (empty, await empty.caller("ratio")), "with": (full, await full.caller("ratio"))}
    for number in range(times + 1):
        for which, (made, caller) in callers.items():
            begun = time.perf_counter()
            for names in itertools.islice(_in_turn(tuple(made.task_ids)), batches):
                await steps.batch(made, caller, names)
            if number:
                took[which].append((time.perf_counter() - begun) / batches / BATCH * 1e6)
    for which, values in took.items():
        out.note(
            KEYS[1],
            f"{which} history: {median(values):,.0f} µs a run, {min(values):,.0f} to {max(values):,.0f}",
        )
    out.note(KEYS[1], f"{times} repetitions of {batches * BATCH} runs in turn; {circumstances(full.folder)}")
    return median(took["with"]) / median(took["without"])


def _in_turn(names: tuple[str, ...]) -> itertools.chain[tuple[str, ...]]:
    """Batches of tasks, so that all of them get their turn."""
    parts = [names[at : at + BATCH] for at in range(0, len(names) - BATCH + 1, BATCH)]
    return itertools.chain.from_iterable(itertools.repeat(parts))


async def _lists(out: Out, full: Rig, times: int) -> float:
    """95th percentile over every page of every kind of list, thread hop and decoding included."""
    took: dict[str, list[float]] = {}
    for what, where in _kinds(full):
        took[what] = []
        for _ in range(times):
            begun = time.perf_counter()
            await full.queries.runs(where)
            took[what].append((time.perf_counter() - begun) * 1000)
    all_ms = [value for values in took.values() for value in values]
    out.note(
        KEYS[2],
        f"{len(all_ms)} pages of {len(took)} kinds: median {median(all_ms):.2f} ms, longest {max(all_ms):.2f}; "
        f"{circumstances(full.folder)}",
    )
    for what in sorted(took, key=lambda what: median(took[what]), reverse=True)[:_SHOWN]:
        out.note(KEYS[2], f"{what}: median {median(took[what]):.2f} ms, longest {max(took[what]):.2f}")
    return percentile(all_ms, 0.95)


def _kinds(full: Rig) -> list[tuple[str, RunFilter]]:
    db = apsw.Connection(str(full.folder / "ledger.db"), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        total = db.execute("SELECT count(*) FROM runs").fetchall()[0][0]
        deep = [
            db.execute(
                "SELECT run_id FROM runs ORDER BY run_id LIMIT 1 OFFSET ?", (int(total * share),)
            ).fetchall()
            for share in (0.9, 0.5, 0.001)
        ]
    finally:
        db.close()
    week = int(time.time() * 1000) - 7 * DAY
    found = [("newest", RunFilter()), ("since a week", RunFilter(since_ms=week))]
    found += [
        (f"paging, before {share}", RunFilter(before=rows[0][0]))
        for share, rows in zip((0.9, 0.5, 0.001), deep, strict=True)
    ]
    for state in ("open", *states.RUN):
        found.append((f"state {state}", RunFilter(state=state)))
        found.append((f"state {state}, paging", RunFilter(state=state, before=deep[1][0][0])))
        found.append((f"state {state}, since a week", RunFilter(state=state, since_ms=week)))
        found.append((f"task and state {state}", RunFilter(task="t0050", state=state)))
    for name in ("t0000", "t0007", "t0199"):
        found.append((f"task {name}", RunFilter(task=name)))
        found.append((f"task {name}, paging", RunFilter(task=name, before=deep[1][0][0])))
        found.append((f"task {name}, since a week", RunFilter(task=name, since_ms=week)))
    found.append(("unreachable", RunFilter(unreachable=True)))
    return found
