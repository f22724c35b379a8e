"""Database trouble of every kind: named as what it is, and nothing half done is left behind (I1, I12)."""

from __future__ import annotations

import asyncio
import errno
import subprocess
import threading
from contextlib import contextmanager

import apsw
import pytest

from qinglong.errors import Unavailable, Unknown
from qinglong.ledger.port import Keys
from qinglong.ledger.sqlite.store import SqliteLedger
from qinglong.sqlite import GROUP, Writer, connect
from support.builders import spec
from support.clock import FakeClock
from support.kernel import Kernel
from support.store import Store


@pytest.fixture
def path(tmp_path):
    return tmp_path / "some.db"


@pytest.fixture
def db(path):
    connection = connect(path)
    connection.execute("CREATE TABLE things (name TEXT PRIMARY KEY, size INTEGER CHECK (size >= 0)) STRICT")
    return connection


@pytest.fixture
def writer(db):
    made = Writer(db, "writer")
    yield made
    made.close()


def put(name, size=1):
    return lambda db: db.execute("INSERT INTO things VALUES (?, ?)", (name, size)).fetchall()


def names(path):
    db = connect(path, readonly=True)
    try:
        return [name for (name,) in db.execute("SELECT name FROM things ORDER BY name")]
    finally:
        db.close()


@contextmanager
def busy(writer):
    """While this lasts the writer is held, so that what is queued meanwhile becomes one group."""
    go, held = threading.Event(), threading.Event()

    def hold(db):
        held.set()
        assert go.wait(10)

    async def first():
        await writer.run(hold)

    thread = threading.Thread(target=lambda: asyncio.run(first()))
    thread.start()
    assert held.wait(10)
    try:
        yield go
    finally:
        go.set()
        thread.join()


def together(writer, *members):
    """Outcomes of members that are committed as one group."""

    async def all_of():
        with busy(writer) as go:
            tasks = [asyncio.ensure_future(writer.run(member)) for member in members]
            await asyncio.sleep(0)
            go.set()
        return await asyncio.gather(*tasks, return_exceptions=True)

    return asyncio.run(all_of())


def test_a_group_is_bounded(writer, path):
    together(writer, *(put(f"n{number:03}") for number in range(3 * GROUP)))
    assert writer.commits == 1 + 3
    assert len(names(path)) == 3 * GROUP


def test_members_see_what_members_before_them_did(writer):
    def count(db):
        return db.execute("SELECT count(*) FROM things").fetchone()[0]

    assert together(writer, put("a"), count, put("b"), count) == [[], 1, [], 2]


class Broken:
    """A connection on which neither COMMIT nor ROLLBACK can be had."""

    def __init__(self, db):
        self._db = db

    def __getattr__(self, name):
        return getattr(self._db, name)

    def execute(self, statement, *values):
        if statement == "COMMIT":
            raise apsw.FullError("full")
        if statement == "ROLLBACK":
            raise apsw.IOError("gone")
        return self._db.execute(statement, *values)


def test_i12_a_commit_whose_rollback_fails_too_is_unknown(db):
    writer = Writer(Broken(db), "writer")
    with pytest.raises(Unknown):
        asyncio.run(writer.run(put("a")))
    db.execute("ROLLBACK")
    writer.close()


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (apsw.FullError("x"), "disk_full"),
        (apsw.BusyError("x"), "busy"),
        (apsw.ReadOnlyError("x"), "not_writable"),
        (apsw.CantOpenError("x"), "not_writable"),
        (apsw.IOError("x"), "database_error"),
        (apsw.CorruptError("x"), "database_error"),
        (apsw.NotADBError("x"), "database_error"),
        (apsw.NoMemError("x"), "database_error"),
    ],
)
def test_database_trouble_inside_a_member_is_unavailable_never_damage(writer, path, error, code):
    def member(db):
        put("a")(db)
        raise error

    with pytest.raises(Unavailable) as caught:
        asyncio.run(writer.run(member))
    assert caught.value.code == code
    assert names(path) == []


def test_a_fault_of_ours_is_not_dressed_up_as_trouble(writer):
    with pytest.raises(apsw.SQLError):
        asyncio.run(writer.run(lambda db: db.execute("SELEC 1")))


def test_what_sqlite_rolled_back_by_itself_is_unavailable_for_the_whole_group(writer, path):
    def gives_up(db):
        db.execute("ROLLBACK")
        raise apsw.FullError("full")

    outcomes = together(writer, put("a"), gives_up, put("b"))
    assert [outcome.code for outcome in outcomes] == ["disk_full"] * 3
    asyncio.run(writer.run(put("c")))
    assert names(path) == ["c"]


# The ledger on top of it


def test_admissions_that_come_together_share_commits_and_hold_together(tmp_path):
    store = Store(tmp_path, FakeClock(), durable=False)
    kernel = Kernel(store.ledger)
    kernel.publish(*(spec(f"t{number}") for number in range(50)))
    before = store.writer.commits
    with busy(store.writer) as go:
        thread = threading.Thread(
            target=lambda: kernel.now(*(kernel.admitting(f"t{number}") for number in range(50)))
        )
        thread.start()
        while store.writer._inbox.waiting < 50:
            threading.Event().wait(0.001)
        go.set()
    thread.join()
    assert store.writer.commits - before == 2
    assert store.rows("SELECT count(*) FROM runs") == [(50,)]
    store.close()


@pytest.fixture
def small(tmp_path):
    """A file system of two megabytes."""
    folder = tmp_path / "small"
    folder.mkdir()
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(folder)], capture_output=True, check=False
    )
    if made.returncode:
        pytest.skip("needs the right to mount")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_a_disk_that_is_really_full_loses_nothing_that_was_acknowledged(small):
    """Every Run is there as a whole or not at all, and the ledger goes on when there is room again."""
    store = Store(small, FakeClock())
    kernel = Kernel(store.ledger)
    kernel.publish(spec(notes="x" * 2_000))
    acknowledged, refusals = [], []

    def fill(size):
        try:
            with (small / "ballast").open("ab") as ballast:
                ballast.write(b"x" * size)
        except OSError as error:
            assert error.errno == errno.ENOSPC

    for number in range(1, 400):
        if number == 30:
            fill(2 * 1024 * 1024)
        try:
            kernel.now(kernel.admitting(number=number, allow_overlap=True))
            acknowledged.append(number)
        except Unavailable as error:
            refusals.append(error.code)
            if len(refusals) > 3:
                break
    assert set(refusals) == {"disk_full"}
    (small / "ballast").unlink()
    kernel.now(kernel.admitting(number=999, allow_overlap=True))
    store.close()
    again = Store(small, FakeClock())
    stored = [int(run[-12:], 16) for (run,) in again.rows("SELECT run_id FROM runs ORDER BY run_id")]
    assert stored == [*acknowledged, 999]
    for table in ("attempts", "events", "queue", "places"):
        assert again.rows(f"SELECT count(*) FROM {table}") == [(len(stored),)], table
    assert again.rows("PRAGMA integrity_check") == [("ok",)]
    again.close()


def test_what_cannot_be_read_back_is_trouble_of_the_database(tmp_path):
    store = Store(tmp_path, FakeClock(), durable=False)
    kernel = Kernel(store.ledger)
    kernel.publish(spec())
    run = kernel.admit()
    ((root, size),) = store.rows(
        "SELECT rootpage, (SELECT page_size FROM pragma_page_size) FROM sqlite_master WHERE name = 'runs'"
    )
    store.close()
    with (tmp_path / "ledger.db").open("r+b") as file:
        file.seek((root - 1) * size)
        file.write(b"\xff" * size)
    db = connect(tmp_path / "ledger.db")
    writer = Writer(db, "writer")
    with pytest.raises(Unavailable) as caught:
        asyncio.run(SqliteLedger(writer, FakeClock()).transact(Keys(runs=(run,)), lambda draft: None))
    assert caught.value.code == "database_error"
    writer.close()
