"""The one writer: commits in groups, each member for itself; what is not known is called unknown (I1, I12)."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
from pathlib import Path

import apsw
import pytest

from qinglong.errors import Damaged, Unavailable, Unknown
from qinglong.sqlite import GROUP, Reader, Writer, connect

ROOT = Path(__file__).parents[2]


@pytest.fixture
def path(tmp_path):
    db = connect(tmp_path / "test.db")
    db.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, text TEXT NOT NULL) STRICT")
    db.close()
    return tmp_path / "test.db"


class Gate:
    """Holds the writer's thread until a whole group waits behind it."""

    def __init__(self):
        self.entered, self.open = threading.Event(), threading.Event()

    def __call__(self, db):
        self.entered.set()
        assert self.open.wait(10)


async def together(writer, *members, reads=()):
    """Submit members so that they form one group; their results or errors."""
    gate = Gate()
    holding = asyncio.create_task(writer.run(gate))
    await asyncio.to_thread(gate.entered.wait, 10)
    waiting = [asyncio.create_task(writer.run(member)) for member in members]
    waiting += [asyncio.create_task(writer.read(read)) for read in reads]
    await asyncio.sleep(0)
    gate.open.set()
    await holding
    return await asyncio.gather(*waiting, return_exceptions=True)


def insert(number, text="x"):
    def member(db):
        db.execute("INSERT INTO t VALUES (?, ?)", (number, text))
        return number

    return member


def stored(path):
    db = connect(path, readonly=True)
    try:
        return [row[0] for row in db.execute("SELECT id FROM t ORDER BY id")]
    finally:
        db.close()


class Refuses:
    """A connection whose statements of one kind fail, as a disk does."""

    def __init__(self, db, word, error, before=True):
        self._db, self._word, self._error, self._before = db, word, error, before
        self.failing = False

    def __getattr__(self, name):
        return getattr(self._db, name)

    def execute(self, statement, *values):
        if self.failing and statement.startswith(self._word):
            if not self._before:
                self._db.execute(statement, *values)
            raise self._error
        return self._db.execute(statement, *values)


def drive(path, main, wrap=lambda db: db):
    db = wrap(connect(path))
    writer = Writer(db, "test")
    try:
        return asyncio.run(main(writer, db))
    finally:
        writer.close()


def test_every_setting_is_in_force(path):
    db = connect(path)
    wanted = {
        "journal_mode": "wal",
        "synchronous": 2,
        "foreign_keys": 1,
        "temp_store": 2,
        "cache_size": -2048,
    }
    assert {name: db.execute(f"PRAGMA {name}").fetchone()[0] for name in wanted} == wanted
    db.close()


def test_many_at_once_share_commits_and_all_are_durable(path):
    async def main(writer, db):
        before = writer.commits
        results = await together(writer, *(insert(number) for number in range(3 * GROUP)))
        assert results == list(range(3 * GROUP))
        return writer.commits - before

    assert drive(path, main) <= 1 + 4
    assert stored(path) == list(range(3 * GROUP))


@pytest.mark.parametrize("alone", [True, False])
def test_a_failing_member_spoils_only_itself(path, alone):
    def half(db):
        insert(50)(db)
        raise ZeroDivisionError("as if")

    async def main(writer, db):
        bad = [half, insert(1), insert(2, None)]
        if alone:
            await writer.run(insert(1))
            return [await outcome(writer, member) for member in bad]
        good = [insert(1), insert(7), insert(8)]
        found = await together(writer, good[0], *bad, *good[1:])
        assert [found[0], *found[4:]] == [1, 7, 8]
        return found[1:4]

    errors = drive(path, main)
    assert [type(error) for error in errors] == [ZeroDivisionError, Damaged, Damaged]
    assert stored(path) == ([1] if alone else [1, 7, 8])


async def outcome(writer, member):
    try:
        return await writer.run(member)
    except Exception as error:
        return error


@pytest.mark.parametrize("committed", [True, False])
def test_i12_a_failed_commit_is_unknown_to_every_member(path, committed):
    """Whether or not it reached the disk: nobody can tell, and nobody is told that it did not."""

    async def main(writer, db):
        gate = Gate()
        holding = asyncio.create_task(writer.run(gate))
        await asyncio.to_thread(gate.entered.wait, 10)
        db.failing = True
        gate.open.set()
        found = await asyncio.gather(
            holding, *(writer.run(insert(n)) for n in (1, 2)), return_exceptions=True
        )
        db.failing = False
        assert await writer.run(insert(9)) == 9, "the writer goes on"
        return found

    error = apsw.IOError("disk I/O error")
    found = drive(path, main, lambda db: Refuses(db, "COMMIT", error, before=not committed))
    assert {type(one) for one in found} == {Unknown}
    assert {one.code for one in found} == {"commit_unknown"}
    assert stored(path) == ([1, 2, 9] if committed else [9])


@pytest.mark.parametrize("error", [apsw.FullError("full"), apsw.BusyError("busy")])
def test_a_commit_that_provably_did_not_happen_is_unavailable(path, error):
    async def main(writer, db):
        db.failing = True
        found = await outcome(writer, insert(1))
        db.failing = False
        assert stored(path) == []
        await writer.run(insert(2))
        return found

    found = drive(path, main, lambda db: Refuses(db, "COMMIT", error))
    assert isinstance(found, Unavailable)
    assert stored(path) == [2]


def test_another_program_that_holds_the_database_makes_it_unavailable(path):
    async def main(writer, db):
        db.set_busy_timeout(1)
        other = connect(path)
        other.execute("BEGIN IMMEDIATE")
        found = await outcome(writer, insert(1))
        other.execute("ROLLBACK")
        other.close()
        await writer.run(insert(2))
        return found

    found = drive(path, main)
    assert isinstance(found, Unavailable)
    assert found.code == "busy"
    assert stored(path) == [2]


def test_reads_alone_are_no_commit_and_see_everything_before_them(path):
    def count(db):
        return db.execute("SELECT count(*) FROM t").fetchone()[0]

    async def main(writer, db):
        await writer.run(insert(1))
        before = writer.commits
        assert await asyncio.gather(*(writer.read(count) for _ in range(10))) == [1] * 10
        assert writer.commits == before
        found = await together(writer, insert(2), insert(3), reads=[count])
        assert found == [2, 3, 3]

    drive(path, main)


def test_an_answer_comes_only_after_its_commit(path):
    async def main(writer, db):
        for number in range(20):
            await writer.run(insert(number))
            assert stored(path)[-1] == number

    drive(path, main)


def test_close_finishes_what_is_queued_and_refuses_what_comes_later(path):
    writer = Writer(connect(path), "test")

    async def main():
        gate = Gate()
        tasks = [asyncio.create_task(writer.run(gate))]
        await asyncio.to_thread(gate.entered.wait, 10)
        tasks += [asyncio.create_task(writer.run(insert(number))) for number in range(5)]
        await asyncio.sleep(0)
        closing = asyncio.create_task(asyncio.to_thread(writer.close))
        gate.open.set()
        await closing
        assert [await task for task in tasks] == [None, 0, 1, 2, 3, 4]
        with pytest.raises(Unavailable, match="closed"):
            await writer.run(insert(9))

    asyncio.run(main())
    writer.close()
    assert stored(path) == [0, 1, 2, 3, 4]


def test_who_no_longer_waits_harms_nobody(path):
    async def main(writer, db):
        gate = Gate()
        holding = asyncio.create_task(writer.run(gate))
        await asyncio.to_thread(gate.entered.wait, 10)
        gone, stays = (asyncio.create_task(writer.run(insert(number))) for number in (1, 2))
        await asyncio.sleep(0)
        gone.cancel()
        gate.open.set()
        await holding
        return await stays

    assert drive(path, main) == 2
    assert stored(path) == [1, 2], "a cancelled wait is no rollback (I12)"


def test_a_readers_trouble_is_its_own(path):
    reader = Reader(path, "test")

    def write(db):
        db.execute("INSERT INTO t VALUES (1, 'x')")

    async def main():
        with pytest.raises(Unavailable):
            await reader.run(write)
        return await reader.run(lambda db: db.execute("SELECT count(*) FROM t").fetchone()[0])

    assert asyncio.run(main()) == 0
    reader.close()
    reader.close()
    with pytest.raises(Unavailable):
        asyncio.run(main())


_FILL = """
import asyncio, pathlib, sys
from qinglong.errors import QingLongError
from qinglong.sqlite import Writer, connect
db = connect(pathlib.Path(sys.argv[1]) / "test.db")
db.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, body BLOB)")
writer = Writer(db, "test")
def insert(number):
    def member(db):
        db.execute("INSERT INTO t VALUES (?, zeroblob(20000))", (2 * number,))
        db.execute("INSERT INTO t VALUES (?, zeroblob(20000))", (2 * number + 1,))
    return member
async def main():
    for number in range(10_000):
        try:
            await writer.run(insert(number))
        except QingLongError as error:
            return f"{number} {error.kind} {error.code}"
print(asyncio.run(main()))
rows = db.execute("SELECT count(*), max(id) FROM t").fetchone()
print(*rows)
writer.close()
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="needs a small file system of its own")
def test_a_full_disk_is_unavailable_and_leaves_nothing_half_done(tmp_path):
    script = f"mount -t tmpfs -o size=2m none {tmp_path} && exec {sys.executable} -c '{_FILL}' {tmp_path}"
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", script], capture_output=True, text=True, timeout=60, check=False
    )
    if "unshare" in done.stderr or "mount:" in done.stderr:
        pytest.skip(done.stderr.strip())
    first, second = done.stdout.splitlines()
    number, kind, code = first.split()
    assert (kind, code) == ("unavailable", "disk_full")
    assert second.split() == [str(2 * int(number)), str(2 * int(number) - 1)]


_ADMIT = """
import asyncio, pathlib, sys
sys.path.insert(0, sys.argv[2])
from support.builders import spec
from support.clock import FakeClock
from support.plane import Plane
from support.store import Store
from qinglong.domain.definitions import Overlap
store = Store(pathlib.Path(sys.argv[1]), FakeClock())
plane = Plane(store)
async def main():
    await plane.publish(spec(overlap=Overlap("allow")))
    async def one():
        while True:
            print(await plane.run("backup"), flush=True)
    await asyncio.gather(*(one() for _ in range(8)))
asyncio.run(main())
"""


@pytest.mark.parametrize("after", [1, 50, 300])
def test_i1_what_was_acknowledged_survives_kill_9(tmp_path, after):
    command = [sys.executable, "-c", _ADMIT, str(tmp_path), str(ROOT / "tests")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        acknowledged = [process.stdout.readline().strip() for _ in range(after)]
        process.kill()
        acknowledged += [line.strip() for line in process.stdout if len(line) == 37]
    db = connect(tmp_path / "ledger.db")
    try:
        found = {row[0] for row in db.execute("SELECT run_id FROM runs")}
        assert len(acknowledged) == len(set(acknowledged)) >= after
        assert set(acknowledged) <= found
        assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        for table in ("attempts", "events", "queue"):
            assert {row[0] for row in db.execute(f"SELECT run_id FROM {table}")} == found, table
    finally:
        db.close()
