"""Reading for people, on a connection of its own; never used to decide anything."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import apsw

from qinglong.domain import states
from qinglong.domain.gates import OCCUPIES, WAITS, places
from qinglong.domain.records import Event, Occurrence, Run, Session, Worker, WorkerToken
from qinglong.ledger.port import RunFilter, RunView, TaskView, WorkerView
from qinglong.ledger.sqlite import rows, statements
from qinglong.limits import EVENTS_PAGE, LIST_CAP, WORKERS_CAP
from qinglong.sqlite import Reader

T = TypeVar("T")
_LAST = "g"
"""Greater than every id: hex digits end at f."""
_RECENT = 20_000
"""How many of the newest Runs are searched for the end of an id."""
_SHOWN = 20


class SqliteQueries:
    """``Queries`` of ``ledger/port.py`` on SQLite."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader

    async def _run(self, read: Callable[[apsw.Connection], T]) -> T:
        return await self._reader.run(read)

    async def runs(self, where: RunFilter) -> tuple[Run, ...]:
        """See the port."""
        return await self._run(lambda db: _runs(db, where))

    async def run(self, run_id: str) -> RunView | None:
        """See the port."""
        return await self._run(lambda db: _view(db, run_id))

    async def find_run(self, text: str) -> tuple[str, ...]:
        """See the port; an id's end is searched among the newest Runs only."""
        return await self._run(lambda db: _find(db, text))

    async def events(self, run_id: str, after: int) -> tuple[Event, ...]:
        """See the port."""

        def read(db: apsw.Connection) -> tuple[Event, ...]:
            return tuple(map(rows.event_of, statements.rows(db, "event/list", (run_id, after, EVENTS_PAGE))))

        return await self._run(read)

    async def tasks(self, project: str) -> tuple[TaskView, ...]:
        """See the port."""

        def read(db: apsw.Connection) -> tuple[TaskView, ...]:
            found = statements.rows(db, "task/of_project", (project,))
            return tuple(_task(db, row) for row in found if row[7] is None)

        return await self._run(read)

    async def task(self, project: str, name: str) -> TaskView | None:
        """See the port."""

        def read(db: apsw.Connection) -> TaskView | None:
            key = statements.row(db, "task/by_name", (project, name))
            row = None if key is None else statements.row(db, "task/get", key)
            return None if row is None or row[7] is not None else _task(db, row)

        return await self._run(read)

    async def spec(self, task_id: str, revision: int) -> bytes | None:
        """Canonical JSON of a pinned revision."""

        def read(db: apsw.Connection) -> bytes | None:
            row = statements.row(db, "task/get_revision", (task_id, revision))
            return None if row is None else row[0]

        return await self._run(read)

    async def occurrences(self, trigger_id: str, limit: int) -> tuple[Occurrence, ...]:
        """See the port."""

        def read(db: apsw.Connection) -> tuple[Occurrence, ...]:
            return tuple(map(rows.occurrence_of, statements.rows(db, "occurrence/list", (trigger_id, limit))))

        return await self._run(read)

    async def sessions(self) -> tuple[Session, ...]:
        """See the port."""
        return await self._run(lambda db: tuple(map(rows.session_of, statements.rows(db, "session/list"))))

    async def workers(self) -> tuple[WorkerView, ...]:
        """See the port."""
        return await self._run(_workers)

    async def worker_tokens(self, worker: str) -> tuple[WorkerToken, ...]:
        """See the port."""

        def read(db: apsw.Connection) -> tuple[WorkerToken, ...]:
            found = statements.rows(db, "worker_token/of_worker", (worker, LIST_CAP))
            return tuple(WorkerToken(*row) for row in found)

        return await self._run(read)

    async def counts(self) -> dict[str, float]:
        """See the port."""
        return await self._run(_counts)


def _runs(db: apsw.Connection, where: RunFilter) -> tuple[Run, ...]:
    name, values = (
        "run/list",
        {
            "project": where.project,
            "before": where.before or _LAST,
            "since": since_id(where.since_ms),
            "limit": min(where.limit, LIST_CAP),
            "task": "",
            "state": where.state,
        },
    )
    if where.task:
        key = statements.row(db, "task/by_name", (where.project, where.task))
        if key is None:
            return ()
        values["task"] = key[0]
        name = "run/list_task"
    if where.unreachable or where.state == "open" or where.state in states.RUN.keys() - states.RUN_FINAL:
        return _open(db, where, name + "_open", values)
    if where.state:
        name += "_succeeded" if where.state == "succeeded" else "_bad"
    return tuple(map(rows.run_of, statements.rows(db, name, values)))


def _open(db: apsw.Connection, where: RunFilter, name: str, values: dict[str, Any]) -> tuple[Run, ...]:
    """Open Runs are few; what the index does not know is picked here."""
    found = map(rows.run_of, statements.rows(db, name, {**values, "limit": _RECENT}))
    picked = [
        run
        for run in found
        if (where.state in {"", "open"} or run.state == where.state)
        and (not where.unreachable or run.unreachable_ms is not None)
    ]
    return tuple(picked[: min(where.limit, LIST_CAP)])


def since_id(since_ms: int | None) -> str:
    """The smallest UUIDv7 of a moment: ids are ordered by time."""
    if since_ms is None:
        return ""
    text = f"{max(since_ms, 0):012x}"
    return f"{text[:8]}-{text[8:]}"


def _view(db: apsw.Connection, run_id: str) -> RunView | None:
    row = statements.row(db, "run/get", (run_id,))
    if row is None:
        return None
    run = rows.run_of(row)
    attempts = tuple(map(rows.attempt_of, statements.rows(db, "attempt/list", (run_id,))))
    lease = statements.row(db, "lease/get", (run_id, "", run.attempt))
    late = statements.row(db, "late/count", (run_id,))
    return RunView(
        run=run,
        attempts=attempts,
        lease=None if lease is None else rows.lease_of(lease),
        events=tuple(map(rows.event_of, statements.rows(db, "event/list", (run_id, 0, EVENTS_PAGE)))),
        evidence=tuple(map(rows.evidence_of, statements.rows(db, "evidence/list", (run_id,)))),
        late=0 if late is None else late[0],
        waits_for=_waits_for(db, run),
    )


def _waits_for(db: apsw.Connection, run: Run) -> tuple[str, ...]:
    held_at = [key for key, kind in places(run) if kind == WAITS]
    if not held_at:
        return ()
    return tuple(row[0] for row in statements.rows(db, "place/at", (held_at[0], OCCUPIES, _SHOWN)))


def _find(db: apsw.Connection, text: str) -> tuple[str, ...]:
    tasks = statements.rows(db, "task/named", (text,))
    text = text.lower()
    exact = statements.row(db, "run/get", (text,))
    if exact is not None:
        return (text,)
    if tasks:
        newest = [statements.row(db, "run/newest_of_task", task) for task in tasks]
        return tuple(row[0] for row in newest if row is not None)
    if len(text) < 4 or not set(text) <= set("0123456789abcdef-"):
        return ()
    recent = statements.rows(db, "run/newest_ids", (_RECENT,))
    ends = tuple(row[0] for row in recent if row[0].endswith(text))
    if ends:
        return ends[:3]
    return tuple(row[0] for row in statements.rows(db, "run/ids_by_start", (text, text + _LAST)))


def _task(db: apsw.Connection, row: statements.Row) -> TaskView:
    task = rows.task_of(row[:-1])
    newest = statements.row(db, "run/newest_of_task", (task.task_id,))
    last = None if newest is None else statements.row(db, "run/get", newest)
    skipped = statements.row(db, "occurrence/skipped", (task.task_id,))
    return TaskView(
        task=task,
        spec=row[-1],
        triggers=tuple(map(rows.trigger_of, statements.rows(db, "trigger/of_task", (task.task_id,)))),
        last=None if last is None else rows.run_of(last),
        skipped=0 if skipped is None else skipped[0],
    )


def _workers(db: apsw.Connection) -> tuple[WorkerView, ...]:
    known = {row[0]: rows.session_of(row) for row in statements.rows(db, "session/list")}
    found = statements.rows(db, "worker/list", (WORKERS_CAP,))
    return tuple(WorkerView(Worker(*row[:5]), known.get(row[0]), row[5], row[6]) for row in found)


def _counts(db: apsw.Connection) -> dict[str, float]:
    found: dict[str, float] = {}
    for state, count, oldest, unreachable, since in statements.rows(db, "run/counts"):
        found[f"runs.{state}"] = count
        found[f"oldest_ms.{state}"] = oldest
        found["unreachable"] = found.get("unreachable", 0) + unreachable
        if since is not None:
            found["oldest_unreachable_ms"] = min(since, found.get("oldest_unreachable_ms", since))
    return found
