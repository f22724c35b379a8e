"""The ledger and the control plane without a worker: callers play the worker through the product's own doors."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
from collections.abc import AsyncIterator, Iterable
from pathlib import Path

from qinglong.control.app import ControlPlane
from qinglong.control.definitions import Publisher
from qinglong.control.deps import STANDALONE, Deps
from qinglong.datafolder import DataFolder
from qinglong.domain.completion import Result
from qinglong.domain.definitions import Command, FileSet, TaskSpec, TriggerSpec
from qinglong.domain.dispatch import Want
from qinglong.effects import Ids, SystemClock, SystemRng
from qinglong.ledger.sqlite.migrate import migrate
from qinglong.ledger.sqlite.queries import SqliteQueries
from qinglong.ledger.sqlite.store import SqliteLedger
from qinglong.profiles.local import LocalLogs
from qinglong.profiles.node import PROFILES
from qinglong.sqlite import Reader, Writer, connect
from qinglong.wire.worker import Claim, Register, Report, Sync

SUCCESS = Result(exit_code=0, log_bytes=6, log_digest=hashlib.sha256(b"hello\n").hexdigest())


def task(name: str, text: str = "true", triggers: tuple[TriggerSpec, ...] = ()) -> TaskSpec:
    """A task with every default."""
    return TaskSpec(name=name, command=Command("text", text=text), cwd="/", triggers=triggers)


def tasks(count: int) -> FileSet:
    """``count`` tasks ``t0000``… without triggers."""
    return FileSet(tasks=tuple(task(f"t{number:04}") for number in range(count)))


class Caller:
    """One worker name with its Session."""

    def __init__(self, rig: Rig, name: str, session_id: str, generation: int) -> None:
        self._rig = rig
        self.name = name
        self.session_id = session_id
        self.generation = generation
        self._seq = 0
        self.poke = asyncio.Event()

    def request(self, wants: Iterable[Want] = (), reports: Iterable[Report] = ()) -> Sync:
        """The next sync."""
        self._seq += 1
        wants = tuple(wants)
        return Sync(self.session_id, self.generation, self._seq, len(wants), wants, tuple(reports))

    def want(self) -> tuple[Want, str]:
        """A wish for an offer, and the token that its digest stands for."""
        offer_id = self._rig.ids.new()
        token = hashlib.sha256(offer_id.encode()).hexdigest()
        return Want(offer_id, hashlib.sha256(bytes.fromhex(token)).hexdigest()), token


class Rig:
    """An open ledger with published tasks, its control plane, and an open door."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._lock = DataFolder(folder)
        self._lock.open()
        self.clock = SystemClock()
        db = connect(folder / "ledger.db", cache_kib=PROFILES["standalone"].cache_kib)
        migrate(db, self.clock.wall_ms())
        self.writer = Writer(db, "ledger")
        self.reader = Reader(folder / "ledger.db", "queries")
        self.ledger = SqliteLedger(self.writer, self.clock)
        self.ids = Ids(self.clock, SystemRng())
        self.deps = Deps(self.ledger, self.clock, SystemRng(), self.ids)
        self.queries = SqliteQueries(self.reader)
        self.control = ControlPlane(self.deps, STANDALONE, self.queries, LocalLogs(folder / "attempts"))
        self.task_ids: dict[str, str] = {}

    async def prepare(self, files: FileSet) -> None:
        """Publish the tasks and open the door."""
        await Publisher(self.deps, self.control.cycle.trigger).publish(files, "bench", "boot")
        for spec in files.tasks:
            head = await self.queries.task(files.project, spec.name)
            assert head is not None
            self.task_ids[spec.name] = head.task.task_id
        await self.control.cycle.run()

    async def caller(self, name: str, max_runs: int = 64) -> Caller:
        """Register a worker name."""
        session_id = self.ids.new()
        said = Register(session_id, f"journal-{name}", 1, max_runs, "bench")
        registered = await self.control.workers.register(name, said)
        return Caller(self, name, session_id, registered.generation)

    async def close(self) -> None:
        """Close everything."""
        await self.ledger.close()
        await asyncio.to_thread(self.reader.close)
        self._lock.close()


@contextlib.asynccontextmanager
async def rig(folder: Path, files: FileSet) -> AsyncIterator[Rig]:
    """A prepared rig in ``folder``."""
    made = Rig(folder)
    try:
        await made.prepare(files)
        yield made
    finally:
        await made.close()


def claim(run_id: str, want: Want, token: str, version: int) -> Claim:
    """The identifying part of a report on a first delivery."""
    return Claim(run_id, "", 1, want.offer_id, 1, version, token)


def report(kind: str, of: Claim) -> Report:
    """One report; a completion has succeeded with six bytes of log."""
    result = SUCCESS if kind == "completed" else None
    return Report(kind, of, {"pid": 4711} if kind == "running" else {}, result)  # type: ignore[arg-type]
