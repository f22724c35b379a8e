"""SQLite, durably: one writer thread that groups commits, and read-only connections beside it.

apsw brings its own SQLite, newer than the interpreter's, which lies in the range of the WAL-reset corruption
bug (fixed in 3.51.3, https://www.sqlite.org/wal.html). WAL with ``synchronous=FULL``: a commit that returned
survives a power cut. Used by the ledger and by the worker's journal; it knows neither.
"""

from __future__ import annotations

import threading  # noqa: TID251 - this is the adapter
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import apsw

from qinglong.errors import Damaged, QingLongError, Unavailable, Unknown
from qinglong.handoff import Inbox, Member, Outcome, resolve

T = TypeVar("T")
GROUP = 64
"""Most members of one commit group."""


class _Work(NamedTuple):
    run: Callable[[apsw.Connection], Any]
    reads: bool


_Member = Member[_Work]


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
        self._inbox: Inbox[_Work] = Inbox()
        self.commits = 0
        """COMMITs so far; tests and the bench count them."""
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._thread.start()

    async def run(self, member: Callable[[apsw.Connection], T], after: Callable[[], None] | None = None) -> T:
        """Run ``member`` inside a transaction and return its result once that is durable.

        ``after`` is called then, also when the caller was cancelled meanwhile: its change stands. Raises what
        ``member`` raised (its own work is undone), ``Unavailable`` or ``Unknown``.
        """
        result: T = await self._inbox.submit(_Work(member, reads=False), after)
        return result

    async def read(self, read: Callable[[apsw.Connection], T]) -> T:
        """Run ``read`` after everything queued so far; outside a transaction of its own, and never a commit."""
        result: T = await self._inbox.submit(_Work(read, reads=True))
        return result

    def close(self) -> None:
        """Finish what is queued, then close the connection; blocks until then."""
        self._inbox.close()
        self._thread.join()
        self._connection.close()

    def _work(self) -> None:
        ended = False
        while not ended and (first := self._inbox.take()) is not None:
            group = [first]
            ended = self._inbox.take_more(group, GROUP)
            self._commit(group)

    def _commit(self, group: list[_Member]) -> None:
        execute = self._connection.execute
        outcomes: list[Outcome] = []
        if all(member.work.reads for member in group):
            resolve(group, [self._look(member) for member in group])
            return
        try:
            execute("BEGIN IMMEDIATE")
            for member in group:
                outcomes.append(self._member(member.work.run, alone=len(group) == 1))
                if self._connection.getautocommit():
                    raise _given_up(outcomes[-1].error)
            execute("COMMIT")
            self.commits += 1
        except BaseException as error:
            verdict = self._undo(error)
            outcomes = [Outcome(None, verdict) for _ in group]
        resolve(group, outcomes)

    def _look(self, member: _Member) -> Outcome:
        try:
            return Outcome(member.work.run(self._connection))
        except Exception as error:
            return Outcome(None, translate(error))

    def _member(self, member: Callable[[apsw.Connection], Any], *, alone: bool) -> Outcome:
        """One member's outcome; a failed one leaves nothing of its own behind.

        A member that is alone needs no SAVEPOINT: its failure rolls the whole transaction back.
        """
        if alone:
            try:
                return Outcome(member(self._connection))
            except Exception as error:
                if not self._connection.getautocommit():
                    self._connection.execute("ROLLBACK; BEGIN IMMEDIATE")
                return Outcome(None, translate(error))
        self._connection.execute("SAVEPOINT member")
        try:
            result = member(self._connection)
            self._connection.execute("RELEASE member")
            return Outcome(result)
        except Exception as error:
            if not self._connection.getautocommit():
                self._connection.execute("ROLLBACK TO member; RELEASE member")
            return Outcome(None, translate(error))

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


class Reader:
    """A thread with one read-only connection: reading for people never delays a commit or the loop."""

    def __init__(self, path: Path, name: str) -> None:
        self._path = path
        self._inbox: Inbox[Callable[[apsw.Connection], Any]] = Inbox()
        self._name = name
        self._thread: threading.Thread | None = None
        self.reads = 0
        """Reads so far; tests and the bench count them."""

    async def run(self, read: Callable[[apsw.Connection], T]) -> T:
        """Run ``read`` on the connection; the thread starts with the first call."""
        if self._thread is None and not self._inbox.closed:
            self._thread = threading.Thread(target=self._work, name=self._name, daemon=True)
            self._thread.start()
        result: T = await self._inbox.submit(read)
        return result

    def close(self) -> None:
        """Stop the thread after what is queued."""
        self._inbox.close()
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def _work(self) -> None:
        connection: apsw.Connection | None = None
        while (member := self._inbox.take()) is not None:
            self.reads += 1
            try:
                connection = connection or connect(self._path, readonly=True)
                outcome = Outcome(member.work(connection))
            except Exception as error:
                outcome = Outcome(None, translate(error))
            resolve([member], [outcome])
        if connection is not None:
            connection.close()
