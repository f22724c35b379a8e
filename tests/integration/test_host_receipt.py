"""The keeper: go byte, receipt, stop signals, full disk, restart of the worker. Real keepers."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
import uvloop

from host_support import IS_ROOT, SHELLS, Machine, alive, argv, eventually, text
from qinglong.limits import MIB
from qinglong.worker.host import AttemptKey, Identity, Receipt
from qinglong.worker.linux import LinuxHost, folder, launching, procfs


@pytest.fixture
def machine(tmp_path):
    with Machine(tmp_path) as made:
        yield made


@pytest.fixture(params=SHELLS, ids=lambda shell: Path(shell[0]).name)
def keeper_shell(request, monkeypatch):
    monkeypatch.setattr(launching, "SHELL", request.param)


@pytest.mark.parametrize(
    ("how", "receipt"),
    [
        ("exit 0", Receipt("ended", 0)),
        ("exit 3", Receipt("ended", 3)),
        ("exit 255", Receipt("ended", 255)),
        ("kill -9 $$", Receipt("ended", signal=signal.SIGKILL)),
        ("kill -TERM $$", Receipt("ended", signal=signal.SIGTERM)),
        ("kill -INT $$", Receipt("ended", signal=signal.SIGINT)),
        ("exit 143", Receipt("ended", signal=signal.SIGTERM)),
        ("exit 145", Receipt("ended", 145)),
        ("exit 192", Receipt("ended", 192)),
    ],
)
def test_receipt_tells_the_end(machine, how, receipt, keeper_shell):
    job = machine.run(text(how))
    assert job.wait() == receipt
    assert job.log() == b""
    assert job.presence().state == "gone"


def test_no_go_byte_no_command(machine, tmp_path, keeper_shell):
    """I3: an end of the go pipe before the byte is proof that nothing ran."""
    job = machine.launch(text("touch ran"))
    assert job.presence().state == "alive"
    assert job.host.receipt(job.key) is None
    job.handle.abandon()
    assert job.wait() == Receipt("not_begun")
    assert not (tmp_path / "ran").exists()
    assert job.presence().state == "gone"
    with pytest.raises(RuntimeError):
        job.handle.go()


def test_a_stop_before_the_go_byte_means_not_begun(machine, tmp_path, keeper_shell):
    job = machine.launch(text("touch ran"))
    assert job.kill().state == "gone"
    job.handle.go()
    assert job.wait() == Receipt("not_begun")
    assert not (tmp_path / "ran").exists()


def test_the_same_attempt_may_be_launched_again_after_not_begun(machine):
    """A delivery that was returned unstarted comes back under the same key, with fresh files."""
    first = machine.launch(text("echo first"))
    again = machine.launch(text("echo again"), key=first.key)
    first.handle.abandon()
    first_identity_ended = eventually(lambda: not alive(first.keeper))
    assert first_identity_ended
    assert again.host.receipt(again.key) is None
    assert again.go().wait() == Receipt("ended", 0)
    assert again.log() == b"again\n"


@pytest.mark.parametrize(
    "name", ["HUP", "INT", "QUIT", "ALRM", "TERM", "USR1", "USR2", "PIPE", "TSTP", "VTALRM"]
)
def test_keeper_outlives_the_stop_signals_of_its_group(machine, name, keeper_shell):
    ready = "import signal\nsignal.signal(signal.SIGPIPE, signal.SIG_DFL)\nprint('up', flush=True)\nsignal.pause()"
    job = machine.run(argv(sys.executable, "-I", "-c", ready))
    job.says("up")
    assert job.signal(f"SIG{name}") == 1
    if name == "TSTP":
        # Ignored by the kernel in a group without a terminal; the command is still there.
        assert job.presence().state == "alive"
        return
    assert job.wait() == Receipt("ended", signal=getattr(signal, f"SIG{name}"))


def test_case_61_a_stop_asks_first_and_kills_after_the_grace(machine, keeper_shell):
    """The one stop path: a signal to the group, and whoever takes no notice is killed."""
    polite = machine.run(text("trap 'echo bye; exit 7' TERM; echo up; while :; do sleep 0.01; done"))
    deaf = machine.run(text("trap '' TERM; echo up; while :; do sleep 0.01; done"))
    for job in (polite, deaf):
        job.says("up")
        assert job.signal("SIGTERM") >= 1
    assert polite.wait() == Receipt("ended", 7)
    assert polite.log().endswith(b"bye\n")
    assert deaf.presence().state == "alive"
    assert deaf.kill().state == "gone"
    assert deaf.wait() == Receipt("ended", signal=signal.SIGKILL)


def test_a_signal_without_a_name(machine):
    job = machine.launch(text("true"))
    with pytest.raises(ValueError, match="SIGNONE"):
        job.signal("SIGNONE")


def test_keeper_killed_and_command_gone_leaves_no_receipt(machine):
    job = machine.run(text("exec sleep 60"))
    command = job.command()
    os.kill(job.keeper, signal.SIGKILL)
    os.kill(command, signal.SIGKILL)
    assert job.wait() is None
    assert eventually(lambda: job.presence().state == "gone")


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b" " * 1024,
        b"ended 0 ",
        b"ended 0 MARK ;",
        b"ended 0 MARK\n",
        b"ended 0 MAR" + b" " * 500 + b"\n",
        b"ended 256 MARK ;\n",
        b"ended x MARK ;\n",
        b"ended - MARK ;\n",
        b"ended 0 another-run -.1 ;\n",
        b"\xff\0\n",
    ],
)
def test_torn_or_foreign_receipts_count_as_none(machine, raw):
    job = machine.launch(text("true"))
    job.handle.abandon()
    job.wait()
    mark = folder.mark(job.key).encode()
    Path(folder.receipt_path(machine.folder, job.key)).write_bytes(raw.replace(b"MARK", mark))
    assert job.host.receipt(job.key) is None


def test_receipt_is_written_through(machine):
    """Durable before the keeper exits: its descriptor is O_DSYNC, the bytes are allocated beforehand."""
    job = machine.launch(text("true"))
    # Its shell puts the descriptor aside while it enters its control group.
    eventually(lambda: os.readlink(f"/proc/{job.keeper}/fd/2") == "/dev/null")
    flags = Path(f"/proc/{job.keeper}/fdinfo/1").read_text().split()[3]
    assert int(flags, 8) & os.O_DSYNC == os.O_DSYNC
    assert os.stat(folder.receipt_path(machine.folder, job.key)).st_blocks > 0


@pytest.mark.skipif(not IS_ROOT, reason="mounting needs root")
def test_receipt_on_a_full_disk(tmp_path):
    """I1: a disk that the job itself filled cannot lose the outcome."""
    mount = tmp_path / "small"
    mount.mkdir()
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "none", str(mount)], check=False)
    if done.returncode:
        pytest.skip("mount is not possible here")
    try:
        with Machine(mount) as machine:
            job = machine.run(text("cat /dev/zero >filler || exit 5"), cwd=str(mount))
            assert job.wait() == Receipt("ended", 5)
            assert os.statvfs(mount).f_bavail == 0
            assert job.presence().state == "gone"
            with pytest.raises(Exception, match="No space left"):
                machine.launch(text("true"))
    finally:
        subprocess.run(["umount", "-l", str(mount)], check=True)


def test_many_tasks_may_wait_for_one_end(machine):
    job = machine.launch(text("sleep 0.05"))

    async def wait() -> None:
        impatient = asyncio.create_task(job.handle.ended())
        waiting = [asyncio.create_task(job.handle.ended()) for _ in range(3)]
        await asyncio.sleep(0)
        impatient.cancel()
        job.handle.go()
        await asyncio.wait_for(asyncio.gather(*waiting), 10)

    asyncio.run(wait())
    uvloop.run(job.handle.ended())
    assert procfs.read_stat(job.keeper) is None


def test_keepers_that_nobody_awaits_are_reaped(machine):
    job = machine.run(text("true"))
    eventually(lambda: not alive(job.keeper))
    job.handle.close()
    machine.jobs.clear()
    machine.run(text("true"))
    assert procfs.read_stat(job.keeper) is None
    job.host.discard(job.key)


WORKER = """
import json, os, sys, msgspec
from pathlib import Path
from qinglong.domain.definitions import Command, TaskSpec
from qinglong.worker.host import AttemptKey, Launch
from qinglong.worker.linux import LinuxHost
host = LinuxHost(Path(sys.argv[1]), 1 << 20)
ids = []
for number, go in ((1, True), (2, False)):
    key = AttemptKey(sys.argv[4], "", number)
    spec = TaskSpec("t", Command("text", text=sys.argv[2]), cwd=sys.argv[3])
    handle = host.launch(Launch(key, spec, 1, None))
    ids.append(msgspec.to_builtins(handle.identity))
    if go:
        handle.go()
print(json.dumps(ids), flush=True)
os.kill(os.getpid(), 9)
"""


def test_a_killed_worker_leaves_its_jobs_to_the_next(tmp_path):
    """Cases 1 and 3: kill -9 of the worker ends no job; the next worker finds it, waits, and reads the receipt."""
    attempts = tmp_path / "attempts"
    wait_for_end = "until [ -e end ]; do sleep 0.01; done; echo done; exit 4"
    run = f"run-{os.getpid()}"
    words = [sys.executable, "-c", WORKER, str(attempts), wait_for_end, str(tmp_path), run]
    dead = subprocess.run(words, stdout=subprocess.PIPE, check=False, timeout=30)
    assert dead.returncode == -signal.SIGKILL
    begun, waiting = (msgspec.convert(raw, Identity) for raw in json.loads(dead.stdout))
    host = LinuxHost(attempts, MIB)
    one, two = AttemptKey(run, "", 1), AttemptKey(run, "", 2)

    assert eventually(lambda: host.receipt(two)) == Receipt("not_begun")
    assert eventually(lambda: host.presence(two, waiting).state == "gone")
    assert host.reattach(two, waiting) is None

    handle = host.reattach(one, begun)
    assert handle is not None
    assert handle.digests == {}
    with pytest.raises(RuntimeError):
        handle.go()
    assert host.presence(one, begun).state == "alive"
    assert host.receipt(one) is None
    (tmp_path / "end").touch()
    asyncio.run(asyncio.wait_for(handle.ended(), 10))
    handle.close()
    assert host.receipt(one) == Receipt("ended", 4)
    assert eventually(lambda: host.presence(one, begun).state == "gone")
    assert host.reattach(one, begun) is None
    assert folder.log_path(attempts, one).read_bytes() == b"done\n"
    for key in (one, two):
        host.discard(key)
    assert sorted(path.name for path in (attempts / run).iterdir()) == ["-.1.log", "-.2.log"]
