"""A control plane over SQLite in virtual time: waiting costs nothing, and a restart forgets all that is in memory."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, TypeVar

import apsw

from qinglong.domain.records import Event, Run
from qinglong.handoff import Inbox, Member
from qinglong.ledger.port import RunFilter, RunView
from qinglong.ledger.sqlite.migrate import migrate
from qinglong.ledger.sqlite.queries import SqliteQueries
from qinglong.ledger.sqlite.store import SqliteLedger
from qinglong.sqlite import Writer, connect
from support.clock import T0, FakeClock
from support.plane import Plane, Worker
from support.store import Store

T = TypeVar("T")


class _Jump(selectors.DefaultSelector):
    """Where a loop would wait, the clock goes on instead."""

    def __init__(self, clock: FakeClock) -> None:
        super().__init__()
        self._clock = clock

    def select(self, timeout: float | None = None) -> list[Any]:
        assert timeout is not None, "everything waits, and nothing is going to happen"
        if timeout > 0:
            self._clock.advance(max(round(timeout * 1000), 1))
        return super().select(0)


class VirtualLoop(asyncio.SelectorEventLoop):
    """Its time is the test's clock."""

    def __init__(self, clock: FakeClock) -> None:
        super().__init__(_Jump(clock))
        self._virtual = clock
        self._clock_resolution = 1e-4  # a float of many seconds is no finer

    def time(self) -> float:
        return self._virtual.boot / 1000


class _InlineInbox(Inbox[Any]):
    """Each member is a group of its own, committed where it is submitted."""

    def __init__(self, commit: Callable[[list[Member[Any]]], None]) -> None:
        super().__init__()
        self._commit = commit

    async def submit(self, work: Any, after: Callable[[], None] | None = None) -> Any:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Any] = loop.create_future()
        self._commit([Member(work, future, loop, after)])
        return await future


class InlineWriter(Writer):
    """The writer without its thread."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection
        self._inbox = _InlineInbox(self._commit)
        self.commits = 0

    def close(self) -> None:
        self._connection.close()


class _InlineReader:
    def __init__(self, path: Path) -> None:
        self._connection = connect(path, readonly=True)

    async def run(self, read: Callable[[apsw.Connection], T]) -> T:
        return read(self._connection)

    def close(self) -> None:
        self._connection.close()


class QuickStore(Store):
    """A store without threads and without fsync."""

    def __init__(self, folder: Path, clock: FakeClock) -> None:
        self.path = folder / "ledger.db"
        self.clock = clock
        db = connect(self.path)
        db.execute("PRAGMA synchronous=OFF")
        migrate(db, clock.wall_ms())
        self.writer = InlineWriter(db)
        self.reader: Any = _InlineReader(self.path)
        self.ledger = SqliteLedger(self.writer, clock)
        self.queries = SqliteQueries(self.reader)


class Lab:
    """``go`` drives a coroutine; ``plane`` and ``store`` are those of the present process."""

    def __init__(self, folder: Path, wall_ms: int = T0, **options: Any) -> None:
        self.clock = FakeClock(wall_ms)
        self._folder = folder
        self._options = options
        self._runner = asyncio.Runner(loop_factory=lambda: VirtualLoop(self.clock))
        self._cadence: asyncio.Task[None] | None = None
        self.lives = 0
        self.start()

    def start(self) -> None:
        self.lives += 1
        self.store = QuickStore(self._folder, self.clock)
        self.plane = Plane(self.store, seed=self.lives, **self._options)

    def crash(self) -> None:
        """Everything in memory is gone, with whatever was on its way."""
        if self._cadence is not None:
            self.go(_cancelled(self._cadence))
            self._cadence = None
        self.store.close()

    def restart(self) -> None:
        self.crash()
        self.start()

    def close(self) -> None:
        self.crash()
        self._runner.close()

    def go(self, work: Coroutine[Any, Any, T]) -> T:
        return self._runner.run(work)

    def tick(self) -> None:
        """Start the cadence."""

        async def begin() -> asyncio.Task[None]:
            return asyncio.create_task(self.plane.control.cadence.run())

        self._cadence = self.go(begin())

    def sleep(self, ms: int) -> None:
        """Let time pass while the cadence runs, and let it finish what is due by then."""
        self.go(_rested(ms))

    def worker(self, name: str = "w1", **options: Any) -> Worker:
        """A registered worker."""
        made = Worker(self.plane, name, **options)
        self.go(made.register())
        return made

    def publish(self, *tasks: Any, **fields: Any) -> None:
        self.go(self.plane.publish(*tasks, **fields))

    def cycle(self) -> tuple[bool, int | None]:
        return self.go(self.plane.cycle())

    def settle(self) -> None:
        self.go(self.plane.settle())

    def run(self, task: str = "backup", **fields: Any) -> str:
        return self.go(self.plane.run(task, **fields))

    def view(self, run_id: str) -> RunView:
        found = self.go(self.store.queries.run(run_id))
        assert found is not None
        return found

    def state(self, run_id: str) -> str:
        return self.view(run_id).run.state

    def told(self, run_id: str, kind: str) -> list[Event]:
        """The Run's Events of one kind."""
        return [event for event in self.view(run_id).events if event.kind == kind]

    def runs(self, task: str = "", **fields: Any) -> list[Run]:
        """Oldest first."""
        found = self.go(self.store.queries.runs(RunFilter(task=task, limit=500, **fields)))
        return list(reversed(found))

    def skipped(self) -> dict[str, int]:
        """How many occurrences were skipped, by reason."""
        rows = self.store.rows(
            "SELECT reason, sum(count) FROM occurrences WHERE run_id IS NULL GROUP BY reason"
        )
        return dict(rows)


async def _rested(ms: int) -> None:
    await asyncio.sleep(ms / 1000)
    loop: Any = asyncio.get_running_loop()
    while loop._ready:
        await asyncio.sleep(0)


async def _cancelled(task: asyncio.Task[None]) -> None:
    while not task.done():
        task.cancel()  # wait_for of Python 3.11 may swallow one
        await asyncio.sleep(0)
