"""SQLite, durably: one writer thread that groups commits, and read-only connections beside it.

apsw brings its own SQLite, newer than the interpreter's, which lies in the range of the WAL-reset corruption
bug (fixed in 3.51.3, https://www.sqlite.org/wal.html). WAL with ``synchronous=FULL``: a commit that returned
survives a power cut. Used by the ledger and by the worker's journal; it knows neither.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading  # noqa: TID251 - this is the adapter
from collections.abc import Callable
from pathlib import Path
from queue import SimpleQueue
from typing import Any, NamedTuple, TypeVar

import apsw

from qinglong.errors import Damaged, QingLongError, Unavailable, Unknown

T = TypeVar("T")
GROUP = 64
"""Most members of one commit group."""


class _Member(NamedTuple):
    work: Callable[[apsw.Connection], Any]
    future: asyncio.Future[Any]
    loop: asyncio.AbstractEventLoop
    reads: bool
    after: Callable[[], None] | None = None
    """Called on the loop once the work is durable, also if nobody waits for the result any more."""


def connect(path: Path, *, readonly: bool = False, cache_kib: int = 2048) -> apsw.Connection:
    """Open a database file (made if missing, unless ``readonly``) with the project's settings."""
    flags = apsw.SQLITE_OPEN_READONLY if readonly else apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE
    connection = apsw.Connection(str(path), flags=flags, statementcachesize=200)
    connection.set_busy_timeout(5_000)
    if not readonly:
        # One by one: a statement that answers a row holds back those that follow it in the same text.
        for setting in (
            "journal_mode=WAL",
            "synchronous=FULL",
            "foreign_keys=ON",
            "journal_size_limit=16777216",
        ):
            connection.execute(f"PRAGMA {setting}")
    connection.execute(f"PRAGMA cache_size=-{cache_kib}; PRAGMA temp_store=MEMORY")
    return connection


class Writer:
    """The one thread that writes a database. Each member of a group has a SAVEPOINT of its own.

    ``run`` is acknowledged after the group's COMMIT, never before (I1). A COMMIT that fails is ``Unknown`` for
    all members (I12), except where SQLite says that the disk is full: then nothing was committed.
    """

    def __init__(self, connection: apsw.Connection, name: str) -> None:
        self._connection = connection
        self._queue: SimpleQueue[_Member | None] = SimpleQueue()
        self._closed = False
        self._closing = threading.Lock()
        """Nothing is queued after the end marker: nobody would ever answer it."""
        self.commits = 0
        """COMMITs so far; tests and the bench count them."""
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._thread.start()

    async def run(self, member: Callable[[apsw.Connection], T], after: Callable[[], None] | None = None) -> T:
        """Run ``member`` inside a transaction and return its result once that is durable.

        ``after`` is called then, also when the caller was cancelled meanwhile: its change stands. Raises what
        ``member`` raised (its own work is undone), ``Unavailable`` or ``Unknown``.
        """
        return await self._submit(member, after, reads=False)

    async def _submit(
        self, member: Callable[[apsw.Connection], T], after: Callable[[], None] | None = None, *, reads: bool
    ) -> T:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        with self._closing:
            if self._closed:
                raise _closed()
            self._queue.put(_Member(member, future, loop, reads, after))
        return await future

    async def read(self, read: Callable[[apsw.Connection], T]) -> T:
        """Run ``read`` after everything queued so far; outside a transaction of its own, and never a commit."""
        return await self._submit(read, reads=True)

    def close(self) -> None:
        """Finish what is queued, then close the connection; blocks until then."""
        with self._closing:
            if self._closed:
                return
            self._closed = True
            self._queue.put(None)
        self._thread.join()
        self._connection.close()

    def _work(self) -> None:
        while True:
            first = self._queue.get()
            if first is None:
                return
            group = [first]
            last = False
            while len(group) < GROUP and not self._queue.empty():
                more = self._queue.get()
                if more is None:
                    last = True
                    break
                group.append(more)
            self._commit(group)
            if last:
                return

    def _commit(self, group: list[_Member]) -> None:
        execute = self._connection.execute
        outcomes: list[tuple[Any, BaseException | None]] = []
        if all(member.reads for member in group):
            _resolve(group, [self._look(member) for member in group])
            return
        try:
            execute("BEGIN IMMEDIATE")
            for member in group:
                outcomes.append(self._member(member.work, alone=len(group) == 1))
                if self._connection.getautocommit():
                    raise _given_up(outcomes[-1][1])
            execute("COMMIT")
            self.commits += 1
        except BaseException as error:
            verdict = self._undo(error)
            outcomes = [(None, verdict) for _ in group]
        _resolve(group, outcomes)

    def _look(self, member: _Member) -> tuple[Any, BaseException | None]:
        try:
            return member.work(self._connection), None
        except Exception as error:
            return None, translate(error)

    def _member(
        self, member: Callable[[apsw.Connection], Any], *, alone: bool
    ) -> tuple[Any, BaseException | None]:
        """One member's outcome; a failed one leaves nothing of its own behind.

        A member that is alone needs no SAVEPOINT: its failure rolls the whole transaction back.
        """
        if alone:
            try:
                return member(self._connection), None
            except Exception as error:
                if not self._connection.getautocommit():
                    self._connection.execute("ROLLBACK; BEGIN IMMEDIATE")
                return None, translate(error)
        self._connection.execute("SAVEPOINT member")
        try:
            result = member(self._connection)
            self._connection.execute("RELEASE member")
            return result, None
        except Exception as error:
            if not self._connection.getautocommit():
                self._connection.execute("ROLLBACK TO member; RELEASE member")
            return None, translate(error)

    def _undo(self, error: BaseException) -> BaseException:
        if not self._connection.getautocommit():
            try:
                self._connection.execute("ROLLBACK")
            except apsw.Error:
                return Unknown("commit_unknown", f"the commit's outcome is not known: {error}")
        verdict = _harmless(error)
        if isinstance(verdict, QingLongError):
            return verdict
        return Unknown("commit_unknown", f"the commit's outcome is not known: {error}")


def _given_up(error: BaseException | None) -> BaseException:
    """SQLite rolled the whole group back by itself (full disk, no memory): the first cause speaks for all."""
    return error or Unavailable("rolled_back", "the database rolled the transaction back")


def _closed() -> Unavailable:
    return Unavailable("ledger_closed", "the database is closed")


_TROUBLE = (
    apsw.IOError,
    apsw.CorruptError,
    apsw.NotADBError,
    apsw.NoMemError,
    apsw.ProtocolError,
    apsw.InterruptError,
)


def translate(error: BaseException) -> BaseException:
    """What one member met, in the project's words: a stored rule that was broken is damage, everything else
    database trouble that left nothing behind; anything that is not SQLite's stays as it is.
    """
    if isinstance(error, apsw.ConstraintError):
        return Damaged("constraint", f"a stored rule would be broken: {error}")
    if isinstance(error, _TROUBLE):
        return Unavailable("database_error", f"the database cannot be used: {error}")
    return _harmless(error)


def _harmless(error: BaseException) -> BaseException:
    """As ``Unavailable`` what proves, of a COMMIT too, that nothing was committed; anything else as it is."""
    if isinstance(error, apsw.FullError):
        return Unavailable("disk_full", "the disk of the data folder is full", remedy="free some space")
    if isinstance(error, apsw.BusyError | apsw.LockedError):
        return Unavailable("busy", "the database is locked by another program")
    if isinstance(error, apsw.CantOpenError | apsw.ReadOnlyError):
        return Unavailable("not_writable", f"the database cannot be written: {error}")
    return error


_Delivery = tuple[_Member, Any, BaseException | None]


def _deliver(deliveries: list[_Delivery]) -> None:
    for member, result, error in deliveries:
        if error is None and member.after is not None:
            member.after()
        if member.future.done():
            continue
        if error is None:
            member.future.set_result(result)
        else:
            member.future.set_exception(error)


def _resolve(group: list[_Member], outcomes: list[tuple[Any, BaseException | None]]) -> None:
    loops: dict[asyncio.AbstractEventLoop, list[_Delivery]] = {}
    for member, (result, error) in zip(group, outcomes, strict=True):
        loops.setdefault(member.loop, []).append((member, result, error))
    for loop, deliveries in loops.items():
        with contextlib.suppress(RuntimeError):  # the loop was closed: nobody waits any more
            loop.call_soon_threadsafe(_deliver, deliveries)


class Reader:
    """A thread with one read-only connection: reading for people never delays a commit or the loop."""

    def __init__(self, path: Path, name: str) -> None:
        self._path = path
        self._queue: SimpleQueue[_Member | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._name = name
        self._closed = False
        self._closing = threading.Lock()
        self.reads = 0
        """Reads so far; tests and the bench count them."""

    async def run(self, read: Callable[[apsw.Connection], T]) -> T:
        """Run ``read`` on the connection; the thread starts with the first call."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        with self._closing:
            if self._closed:
                raise _closed()
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name=self._name, daemon=True)
                self._thread.start()
            self._queue.put(_Member(read, future, loop, reads=True))
        return await future

    def close(self) -> None:
        """Stop the thread after what is queued."""
        with self._closing:
            self._closed = True
            self._queue.put(None)
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def _work(self) -> None:
        connection: apsw.Connection | None = None
        while (member := self._queue.get()) is not None:
            self.reads += 1
            try:
                connection = connection or connect(self._path, readonly=True)
                outcome: tuple[Any, BaseException | None] = (member.work(connection), None)
            except Exception as error:
                outcome = (None, translate(error))
            _resolve([member], [outcome])
        if connection is not None:
            connection.close()
