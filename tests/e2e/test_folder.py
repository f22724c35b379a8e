"""The machine around a server: its folder, its port, its disk, its terminal, the kernel's limits."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import pty
import shutil
import socket
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from support.server import IS_ROOT, Server, diary, jobs, wait_until

UNTIL_GO = diary("until [ -e go ]; do sleep 0.05; done")
MIB = 1 << 20
NOBODY = 65534
WITHOUT_POWER = ("setpriv", "--bounding-set", "-dac_override,-dac_read_search")


def test_a_second_server_on_the_same_folder_is_refused(serve: Callable[..., Server]) -> None:
    """Exit 5 and whose folder it is; the first one is not disturbed, and its address stays announced."""
    server = serve(jobs(t="echo hi")).start()
    refused = server.up_refused()
    assert refused.code == 5
    assert f"another ql uses {server.data}" in refused.err
    assert "Traceback" not in refused.err
    assert server.announced()
    assert server.ql("run", "t", "--follow").out == "hi\n"


def test_a_port_in_use_is_named(serve: Callable[..., Server]) -> None:
    """Exit 5 and which address; nothing is left running or locked."""
    server = serve(jobs(t="echo hi"))
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        refused = server.up_refused("--port", str(port))
    assert refused.code == 5
    assert str(port) in refused.err
    assert "Traceback" not in refused.err
    server.start()
    assert server.ql("run", "t", "--follow").out == "hi\n"


def test_case_78_a_folder_that_cannot_be_written_is_refused_clearly(
    tmp_path: Path, serve: Callable[..., Server]
) -> None:
    """Exit 4, the folder's name and what to do; no traceback, and nothing was made."""
    place = tmp_path / "foreign"
    made = place / "made"
    made.mkdir(parents=True)
    for folder in (made, place):
        folder.chmod(0o555)
        if IS_ROOT:
            os.chown(folder, NOBODY, NOBODY)
    # Root writes anywhere, unless it has laid that power down.
    server = serve(jobs(t="echo hi"), before=WITHOUT_POWER if IS_ROOT else ())
    for data in (place / "missing", made):
        server.data = data
        refused = server.up_refused()
        assert refused.code == 4, refused
        assert f"the data folder {data} cannot be written" in refused.err
        assert "--data" in refused.err
        assert "Traceback" not in refused.err
    assert list(place.iterdir()) == [made]
    assert not list(made.iterdir())
    place.chmod(0o755)
    made.chmod(0o755)


def test_case_64_edits_and_live_output_work_without_inotify(serve: Callable[..., Server]) -> None:
    """Every inotify instance of this account is taken while the server starts and works."""
    with _no_inotify():
        server = serve(jobs(t=diary("echo one; until [ -e go ]; do sleep 0.05; done; echo two"))).start()
        follow = server.spawn("run", "t", "--follow")
        assert follow.stdout is not None
        assert follow.stdout.readline() == b"one\n"
        server.edit(jobs(t="echo edited"))
        server.says("changed: t")
        (server.folder / "go").touch()
        ended = server.finish(follow)
        assert (ended.code, ended.out) == (0, "two\n")
        assert server.ql("run", "t", "--follow").out == "edited\n"
        with pytest.raises(OSError, match="inotify"):
            _inotify()


@contextlib.contextmanager
def _no_inotify() -> Iterator[None]:
    taken: list[int] = []
    try:
        with contextlib.suppress(OSError):
            while True:
                taken.append(_inotify())
        yield
    finally:
        for descriptor in taken:
            os.close(descriptor)


def _inotify() -> int:
    libc = ctypes.CDLL(None, use_errno=True)
    descriptor = libc.inotify_init1(os.O_CLOEXEC)
    if descriptor < 0:
        raise OSError(ctypes.get_errno(), "no more inotify instances")
    return descriptor


@pytest.mark.parametrize("kind", ["full", "unread-pipe", "closed-pipe", "paused-terminal", "closed-terminal"])
def test_a_lost_or_paused_terminal_holds_nothing_up(kind: str, serve: Callable[..., Server]) -> None:
    """Whatever takes stdout or not: jobs run, are watched and end, and the API answers."""
    flood = (
        'i=0; while [ $i -lt 4000 ]; do echo "$i 0123456789012345678901234567890123456789"; i=$((i+1)); done'
    )
    server = serve(jobs(t=diary(flood), slow={"run": "sleep 300", "timeout": "500ms"}))
    with _stdout(kind) as stdout:
        server.start(stdout=stdout)
        runs = [server.admit("t"), server.admit("slow")]
        states = [server.until(run)["run"]["state"] for run in runs]
        assert states == ["succeeded", "timed_out"]
        assert server.ready()[0] == 200
        assert server.stop() == 0


@contextlib.contextmanager
def _stdout(kind: str) -> Iterator[int]:
    """A descriptor to write to that takes nothing, or takes no more after a while."""
    if kind == "full":
        theirs, ours = -1, os.open("/dev/full", os.O_WRONLY)
    else:
        theirs, ours = pty.openpty() if kind.endswith("terminal") else os.pipe()
    if kind.startswith("closed"):
        os.close(theirs)
    try:
        yield ours
    finally:
        os.close(ours)
        if theirs >= 0 and not kind.startswith("closed"):
            os.close(theirs)


@pytest.fixture
def small_disk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    """A file system of 64 MiB, or with other options of mount(8)."""
    if not IS_ROOT:
        pytest.skip("mounting needs root")
    place = tmp_path / "disk"
    place.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", getattr(request, "param", "size=64m"), "tmpfs", str(place)],
        capture_output=True,
        check=False,
    )
    if mounted.returncode:
        pytest.skip(f"cannot mount here: {mounted.stderr.decode()}")
    yield place
    subprocess.run(["umount", "--lazy", str(place)], check=True)


def _fill(disk: Path, leave: int) -> Path:
    """A file that leaves so many bytes free."""
    filler = disk / "filler"
    found = os.statvfs(disk)
    size = found.f_bavail * found.f_frsize - leave
    with open(filler, "wb") as file, contextlib.suppress(OSError):
        while size > 0:
            size -= os.write(file.fileno(), bytes(min(size, MIB)))
    return filler


def test_a_nearly_full_disk_pauses_new_runs_and_spares_running_ones(
    small_disk: Path, serve: Callable[..., Server]
) -> None:
    """``/readyz`` and the command line say why; what runs ends, a waiting Run can be cancelled; then all goes on."""
    server = serve(jobs(t=UNTIL_GO, new=diary()))
    server.data = small_disk / "data"
    server.start()
    run = server.admit("t")
    server.said("start", run)
    filler = _fill(small_disk, 4 * MIB)
    status, body = wait_until(lambda: said if (said := server.ready())[0] == 503 else None, "the door shuts")
    assert status == 503
    assert any(str(server.data) in reason and "MiB left" in reason for reason in body["reasons"])
    assert "MiB left" in server.says("new runs pause")
    waiting, doomed = server.admit("new"), server.admit("new", allow_overlap=True)
    (server.folder / "go").touch()
    assert server.until(run)["run"]["state"] == "succeeded"
    assert server.state(waiting) == "queued"
    assert server.ql("cancel", doomed).code == 0
    assert server.state(doomed) == "cancelled"
    filler.unlink()
    assert server.until(waiting)["run"]["state"] == "succeeded"
    assert server.ready()[0] == 200
    server.says("new runs go on")
    assert not server.lines(doomed)


@pytest.mark.parametrize("small_disk", ["size=64m,nr_inodes=1000"], indirect=True)
def test_a_disk_without_room_for_files_pauses_new_runs(
    small_disk: Path, serve: Callable[..., Server]
) -> None:
    """Bytes are free, inodes are not: a Run waits instead of failing for want of a log."""
    server = serve(jobs(t=diary()))
    server.data = small_disk / "data"
    server.start()
    crowd = small_disk / "crowd"
    crowd.mkdir()
    with contextlib.suppress(OSError):
        for number in range(1_000):
            (crowd / str(number)).touch()
    assert "more files" in server.says("new runs pause")
    run = server.admit("t")
    assert server.ready()[0] == 503
    assert server.state(run) == "queued"
    shutil.rmtree(crowd)
    assert server.until(run)["run"]["state"] == "succeeded"


def test_i12_a_full_disk_loses_no_result(small_disk: Path, serve: Callable[..., Server]) -> None:
    """Not a byte is free while jobs end, then the server is killed too: results are there once space is."""
    waits = "until [ -e {} ]; do sleep 0.05; done"
    server = serve(
        jobs(
            t=UNTIL_GO,
            bad=diary(f"{waits.format('go')}; exit 3"),
            late=diary(waits.format("later")),
        )
    )
    server.data = small_disk / "data"
    server.start()
    good, bad, late = server.admit("t"), server.admit("bad"), server.admit("late")
    for run in (good, bad, late):
        server.said("start", run)
    pid = server.lines(late)[0].pid
    filler = _fill(small_disk, 0)
    wait_until(lambda: server.ready()[0] == 503, "the door shuts")
    (server.folder / "go").touch()
    for run in (good, bad):
        wait_until(lambda run=run: not server.carriers(run), "the job has ended")
    # A request that would write something is answered, not hung: with a problem that names the disk.
    status, _, said = server.http("POST", "/api/v1/runs", {"task": "t", "allow_overlap": True})
    extra = json.loads(said)["run_id"] if status == 201 else ""
    if status != 201:
        assert status == 503, said
        assert b"disk" in said
    server.crash()
    refused = server.up_refused()
    assert refused.code == 5, refused
    assert "the disk of the data folder is full" in refused.err
    filler.unlink()
    server.start()
    (server.folder / "later").touch()
    for run in (good, late):
        assert server.until(run)["run"]["state"] == "succeeded"
    detail = server.until(bad)
    assert (detail["run"]["state"], detail["run"]["exit_code"]) == ("failed", 3)
    assert server.ready()[0] == 200
    assert {line.pid for line in server.lines(late)} == {pid}
    assert [len(server.lines(run, "start")) for run in (good, bad, late)] == [1, 1, 1]
    assert not extra or server.until(extra)["run"]["state"] == "succeeded"
    assert server.until(server.admit("t", allow_overlap=True))["run"]["state"] == "succeeded"


def test_a_damaged_database_is_named_and_not_touched(serve: Callable[..., Server]) -> None:
    """Exit 5 in plain words; the file stays as it is."""
    server = serve(jobs(t="true"))
    server.data.mkdir(mode=0o700)
    spoilt = server.data / "ledger.db"
    spoilt.write_bytes(b"this is no database " * 400)
    before = spoilt.read_bytes()
    refused = server.up_refused()
    assert refused.code == 5, refused
    assert "not a database" in refused.err
    assert "Traceback" not in refused.err
    assert spoilt.read_bytes() == before
