"""One process with everything in it: the composition root of ``edge`` and ``standalone``."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import platform
from pathlib import Path

import apsw
import msgspec

from qinglong.control.app import ControlPlane
from qinglong.control.definitions import Publisher
from qinglong.control.deps import EDGE, STANDALONE, Budgets, Deps, LeaseTimes
from qinglong.datafolder import DataFolder
from qinglong.domain.definitions import FileSet
from qinglong.domain.publishing import Published
from qinglong.effects import Clock, Ids, Rng, SystemClock, SystemRng
from qinglong.ledger.sqlite.migrate import migrate, newest
from qinglong.ledger.sqlite.queries import SqliteQueries
from qinglong.ledger.sqlite.settings import setting
from qinglong.ledger.sqlite.store import SqliteLedger
from qinglong.limits import LOG_CAP_BYTES, LOG_CAP_EDGE_BYTES
from qinglong.profiles import disk
from qinglong.profiles.files import SOURCE, capabilities
from qinglong.profiles.local import LocalLink, LocalLogs
from qinglong.profiles.machine import machine_zone
from qinglong.sqlite import Reader, Writer, connect, translate
from qinglong.worker.agent import Agent, Settings
from qinglong.worker.host import Host
from qinglong.worker.journal import Journal
from qinglong.worker.linux import LinuxHost

log = logging.getLogger("qinglong")
_WATCH_S = 2.0
"""How often job files and the disk are looked at: two system calls."""


_RESUME_S = 10.0
"""How long the first cycle waits for the worker's answers about Attempts from before."""


class Profile(msgspec.Struct, frozen=True):
    """What distinguishes ``edge`` from ``standalone``."""

    name: str
    budgets: Budgets
    log_cap_bytes: int
    cache_kib: int


PROFILES = {
    "edge": Profile("edge", EDGE, LOG_CAP_EDGE_BYTES, 1024),
    "standalone": Profile("standalone", STANDALONE, LOG_CAP_BYTES, 8192),
}


class Node:
    """Open, publish, start; then ``drain`` and ``close``. Holding the data folder's lock is what makes it lawful."""

    def __init__(
        self,
        data: Path,
        profile: Profile,
        slots: int | None = None,
        *,
        clock: Clock | None = None,
        rng: Rng | None = None,
        times: LeaseTimes | None = None,
        host: Host | None = None,
    ) -> None:
        self.data = data
        self.profile = profile
        self._slots = slots or profile.budgets.local_runs
        self._clock = clock or SystemClock()
        self._rng = rng or SystemRng()
        self._times = times or LeaseTimes()
        self._given_host = host
        self._folder = DataFolder(data)
        self._tasks: list[asyncio.Task[None]] = []
        self._owes_boot = ""
        """The project whose boot triggers wait for the door."""
        self.zone = "UTC"
        self.schema = 0

    def open(self) -> None:
        """Take the folder and open what is in it. Raises ``Refused``, ``Unavailable``, ``Damaged``."""
        self._folder.open()
        try:
            self._open()
        except apsw.Error as error:
            self._folder.close()
            raise translate(error) from error
        except BaseException:
            self._folder.close()
            raise

    def _open(self) -> None:
        ids = Ids(self._clock, self._rng)
        db = connect(self.data / "ledger.db", cache_kib=self.profile.cache_kib)
        try:
            migrate(db, self._clock.wall_ms())
            self.schema = newest()
            self.zone = setting(db, "zone", machine_zone())
        except BaseException:
            db.close()
            raise
        self.writer = Writer(db, "ledger")
        self.reader = Reader(self.data / "ledger.db", "queries")
        self.ledger = SqliteLedger(self.writer, self._clock)
        deps = Deps(self.ledger, self._clock, self._rng, ids, self._times)
        attempts = self.data / "attempts"
        self.host = self._given_host or LinuxHost(attempts, self.profile.log_cap_bytes)
        self.control = ControlPlane(
            deps, self.profile.budgets, SqliteQueries(self.reader), LocalLogs(attempts)
        )
        self.control.extra_figures = self._figures
        self.publisher = Publisher(deps, self.control.cycle.trigger)
        self.journal = Journal(self.data / "journal.db", ids, self._rng)
        self.agent = Agent(
            LocalLink(self.control.workers),
            self.host,
            self.journal,
            self._clock,
            ids,
            Settings(
                max_runs=self._slots,
                host=platform.node(),
                idle_wait_ms=3_600_000,
                capabilities=capabilities(),
            ),
        )

    async def start(self, files: FileSet | None) -> tuple[int, Published | None]:
        """Resume what was running, put the file set in force, start the cadence; (Attempts resumed, publication).

        The worker answers for its Attempts before anything is judged, and a first pass judges before anything is
        admitted (D4).
        """
        self.look_at_disk()
        resumed = await self.agent.start()
        self._go(self.agent.run(), "agent")
        await self.agent.resumed(_RESUME_S)
        await self.control.cycle.run()
        published = None if files is None else await self.publish(files)
        self._go(self.control.cadence.run(), "cadence")
        return resumed, published

    def _go(self, work: object, name: str) -> None:
        task = asyncio.ensure_future(work)  # type: ignore[call-overload]
        task.set_name(name)
        self._tasks.append(task)

    async def publish(self, files: FileSet) -> Published:
        """Put a file set in force. Raises ``Conflict`` on a clash of names."""
        admits = self.control.door.is_open
        published = await self.publisher.publish(files, SOURCE, self.host.boot()[0], admits=admits)
        self._owes_boot = "" if admits else files.project
        self.control.cadence.request()
        return published

    async def _boot(self) -> None:
        """Boot triggers that a shut door held back."""
        if self._owes_boot and self.control.door.is_open:
            await self.publisher.boot(self._owes_boot, self.host.boot()[0])
            self._owes_boot = ""

    def look_at_disk(self) -> None:
        """Shut or open the disk's bolt of the door."""
        was_open = self.control.door.is_open
        self.control.door.disk(disk.shortage(self.data))
        if self.control.door.is_open and not was_open:
            self.control.cadence.request()
            self.control.wakes.work()

    async def watch(self, edited: object) -> None:
        """Look at the disk and call ``edited`` (a coroutine function), until cancelled."""
        while True:
            await asyncio.sleep(_WATCH_S)
            self.look_at_disk()
            if isinstance(self.host, LinuxHost):
                self.host.reap_orphans()
            await edited()  # type: ignore[operator]

    def failed(self) -> BaseException | None:
        """Why the agent or the cadence ended on its own, if one did: a fault of ours."""
        for task in self._tasks:
            if task.done() and not task.cancelled() and task.exception() is not None:
                return task.exception()
        return None

    async def drain(self, drain_ms: int) -> int:
        """Start nothing new, wait for what runs; how many Attempts are left."""
        self.control.cadence.stop()
        return await self.agent.drain(drain_ms)

    async def close(self) -> None:
        """Leave what runs to its keepers and close everything; the folder last."""
        self.control.cadence.stop()
        await self.agent.stop()
        for task in self._tasks:
            with contextlib.suppress(asyncio.CancelledError, Exception):
                await asyncio.wait_for(task, 5)
        await asyncio.to_thread(self.journal.close)
        await self.ledger.close()
        await asyncio.to_thread(self.reader.close)
        self._folder.close()

    def _figures(self) -> dict[str, float]:
        return {
            "attempts.running": self.agent.running,
            "attempts.started": self.agent.starts,
            "ledger.commits": self.writer.commits,
            "ledger.transactions": self.ledger.transactions,
            "ledger.reads": self.ledger.reads,
            "journal.commits": self.journal.commits,
        }
