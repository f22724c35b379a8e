"""Gone means the tree (I3): leftovers, daemons, killed keepers, strangers, unreadable environments."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import pytest

from host_support import HAS_CGROUP, IS_ROOT, Machine, alive, argv, carriers, eventually, text
from qinglong.worker.host import AttemptKey, Identity, Presence, Receipt
from qinglong.worker.linux import LinuxHost, procfs, tree

GROUPS = [
    pytest.param(True, marks=pytest.mark.skipif(not HAS_CGROUP, reason="no control groups here")),
    False,
]
PYTHON = f"{sys.executable} -I -c"


@pytest.fixture(params=GROUPS, ids=["cgroup", "proc"])
def machine(request, tmp_path):
    with Machine(tmp_path, request.param) as made:
        yield made


@pytest.fixture
def plain(tmp_path):
    """A machine without control groups."""
    with Machine(tmp_path, use_cgroup=False) as made:
        yield made


def daemon(body: str, env: str = "env") -> str:
    """A text that leaves a setsid'd process behind, which traps TERM; it writes its pid to ``pid``."""
    return f"{env} setsid sh -c 'trap \"\" TERM; echo $$ >pid.new; mv pid.new pid; {body}' >/dev/null 2>&1 &"


def pid_in(path: Path) -> int:
    return int(eventually(lambda: path.exists() and path.read_text()))


def test_alive_while_running_gone_after(machine):
    job = machine.run(text("sleep 60 & wait"))
    command = job.command()
    found = eventually(lambda: (p := job.presence()) and len(p.pids) == 3 and p)
    assert found.state == "alive"
    assert {job.keeper, command} < set(found.pids)
    assert job.kill().state == "gone"
    assert job.wait() == Receipt("ended", signal=signal.SIGKILL)
    assert job.presence().state == "gone"
    assert job.presence().pids == ()


def test_keeper_killed_alone_is_not_gone(machine):
    job = machine.run(text("exec sleep 60"))
    command = job.command()
    os.kill(job.keeper, signal.SIGKILL)
    assert job.wait() is None
    assert job.presence() == Presence("alive", (command,), job.presence().detail)
    assert machine.host.reattach(job.key, job.identity) is None
    assert job.signal("SIGTERM") == 1
    assert eventually(lambda: job.presence().state == "gone")
    assert not alive(command)


def test_what_a_finished_job_leaves_behind_is_seen_and_stopped(machine, tmp_path):
    job = machine.run(text("sleep 60 & echo $! >pid; exit 0"))
    assert job.wait() == Receipt("ended", 0)
    left = pid_in(tmp_path / "pid")
    assert job.presence().pids == (left,)
    assert job.kill().state == "gone"
    assert not alive(left)
    assert job.host.receipt(job.key) == Receipt("ended", 0)


def test_cases_60_and_62_a_detached_daemon_is_gone_and_its_neighbours_are_not(machine, tmp_path):
    body = "sleep 60 & while :; do sleep 0.05; done"
    twin = subprocess.Popen(["sh", "-c", f"sleep 60; : {daemon(body)}"], start_new_session=True)
    try:
        job = machine.run(text(daemon(body) + "\ntrap '' TERM; echo up; while :; do sleep 0.05; done"))
        other = machine.run(text("exec sleep 60"))
        job.says("up")
        left = pid_in(tmp_path / "pid")
        job.signal("SIGTERM")
        assert alive(left)
        assert job.presence().state == "alive"
        assert len(carriers(job.key.run_id)) >= 4
        assert job.kill().state == "gone"
        assert carriers(job.key.run_id) == []
        assert not alive(left)
        assert other.presence().state == "alive"
        assert twin.poll() is None
    finally:
        os.killpg(twin.pid, signal.SIGKILL)
        twin.wait()


def test_a_daemon_without_our_marks_is_seen_by_its_control_group_only(machine, tmp_path):
    """The limit that docs/execution.md states, and how a control group lifts it."""
    job = machine.run(
        text(daemon("sleep 60", env="env -i PATH=$PATH") + "\nuntil [ -e pid ]; do sleep 0.01; done")
    )
    job.wait()
    left = pid_in(tmp_path / "pid")
    try:
        if job.identity.cgroup:
            assert left in job.presence().pids
            assert job.kill().state == "gone"
            assert not alive(left)
        else:
            assert job.presence().state == "gone"
    finally:
        if alive(left):
            os.killpg(left, signal.SIGKILL)


def test_a_child_without_our_marks_is_seen_through_its_parent(plain, tmp_path):
    job = plain.run(
        text("env -i /bin/sh -c 'echo up; sleep 60' & " + daemon("sleep 60", "env -i PATH=$PATH") + " wait")
    )
    job.says("up")
    left = pid_in(tmp_path / "pid")
    assert left in job.presence().pids
    assert job.kill().state == "gone"
    assert not alive(left)


def test_the_recorded_command_is_found_without_group_and_marks(plain):
    code = "import os, time\nos.setsid()\nprint('up', flush=True)\ntime.sleep(60)"
    job = plain.run(argv("env", "-i", sys.executable, "-I", "-c", code))
    command = job.command()
    job.says("up")
    os.kill(job.keeper, signal.SIGKILL)
    job.wait()
    assert job.presence().pids == (command,)
    assert job.kill().state == "gone"
    assert not alive(command)


def test_forks_that_outrun_the_reader_are_not_taken_for_gone(plain, tmp_path):
    """A chain of short-lived, detached processes, none of which lives long enough to be read twice."""
    chain = (
        "import os, sys\n"
        "while not os.path.exists('stop'):\n"
        "    if os.fork(): os._exit(0)\n"
        "    os.setsid()\n"
        "open('stopped', 'w').close()\n"
    )
    job = plain.run(argv(sys.executable, "-I", "-c", chain))
    job.wait()
    try:
        seen = [job.presence().state for _ in range(40)]
    finally:
        (tmp_path / "stop").touch()
    assert "gone" not in seen
    eventually(lambda: (tmp_path / "stopped").exists())
    assert eventually(lambda: job.presence().state == "gone")


def test_a_first_thread_that_has_ended_does_not_hide_its_process(plain):
    code = (
        "import ctypes, threading, time\n"
        "threading.Thread(target=lambda: (print('up', flush=True), time.sleep(60))).start()\n"
        "ctypes.CDLL(None).pthread_exit(None)\n"
    )
    job = plain.run(text(f'setsid {sys.executable} -I -c "{code}" & exit 0'))
    job.wait()
    job.says("up")
    left = eventually(lambda: (p := job.presence().pids) and procfs.read_stat(p[0]).state == "Z" and p)
    # The kernel shows the environment of such a process to root only; to others it stays unverifiable (I12).
    found = job.presence(), job.kill()
    assert [one.state for one in found] == (["alive", "gone"] if IS_ROOT else ["unverifiable"] * 2)
    if not IS_ROOT:
        os.kill(left[0], signal.SIGKILL)
    eventually(lambda: not alive(left[0]))


# Identities that do not match


def test_i3_another_boot_proves_nothing_of_what_ran_in_a_container(machine):
    job = machine.run(text("exec sleep 60"))
    moved = msgspec.structs.replace(job.identity, boot_id="another", pid_ns="pid:[4026532001]")
    assert machine.host.presence(job.key, moved).state == "unverifiable"
    assert machine.host.signal(job.key, moved, "SIGKILL") == 0


def test_another_boot_means_gone_and_nothing_is_touched(machine):
    job = machine.run(text("exec sleep 60"))
    command = job.command()
    other = msgspec.structs.replace(job.identity, boot_id="another", pid_ns=tree.INITIAL_PID_NS)
    assert machine.host.presence(job.key, other) == Presence("gone", detail="boot id changed")
    assert machine.host.reattach(job.key, other) is None
    assert machine.host.signal(job.key, other, "SIGKILL") == 0
    job.identity, mine = other, job.identity
    assert job.kill().state == "gone"
    job.identity = mine
    assert alive(command)


def test_another_pid_namespace_is_unverifiable(machine):
    job = machine.run(text("exec sleep 60"))
    other = msgspec.structs.replace(job.identity, pid_ns="pid:[1]")
    assert machine.host.presence(job.key, other).state == "unverifiable"
    assert machine.host.reattach(job.key, other) is None
    assert machine.host.signal(job.key, other, "SIGKILL") == 0
    assert alive(job.command())


def test_a_reused_pid_is_a_stranger(machine):
    """The keeper's number now names another process, which leads a group and a session of its own."""
    stranger = subprocess.Popen(["sh", "-c", "sleep 60 & wait"], start_new_session=True)
    try:
        key = AttemptKey(f"older-{os.getpid()}-{time.monotonic_ns()}", "", 1)
        boot_id, pid_ns = machine.host.boot()
        stat = procfs.read_stat(stranger.pid)
        old = Identity(boot_id, pid_ns, stranger.pid, stat.start_ticks - 100, "", os.geteuid())
        assert machine.host.reattach(key, old) is None
        assert machine.host.presence(key, old).state == "gone"
        assert machine.host.signal(key, old, "SIGKILL") == 0
        job = machine.launch(text("true"), key=key)
        job.identity = old
        assert job.kill().state == "gone"
        assert stranger.poll() is None
    finally:
        os.killpg(stranger.pid, signal.SIGKILL)
        stranger.wait()


def test_a_record_that_names_a_foreign_control_group_kills_nothing_there(machine):
    job, other = machine.run(text("exec sleep 60")), machine.run(text("exec sleep 60"))
    command = other.command()
    job.identity = msgspec.structs.replace(job.identity, cgroup=other.identity.cgroup)
    assert job.kill().state == "gone"
    assert alive(command)


# A /proc of our own making


def entry(
    proc: Path, pid: int, *, ticks: int, environ: bytes | None, uid: int = 1000, flags: int = 0
) -> None:
    """A process: ``environ`` None makes it unreadable, also for root."""
    place = proc / str(pid)
    place.mkdir(parents=True)
    rest = f"S 1 {pid} {pid} 0 -1 {flags} 0 0 0 0 0 0 0 0 20 0 1 0 {ticks} 0"
    (place / "stat").write_text(f"{pid} (a) b (c) {rest}\n")
    (place / "status").write_text(f"Name:\ta\nUid:\t{uid}\t{uid}\t{uid}\t{uid}\n")
    if environ is None:
        (place / "environ").mkdir()
    else:
        (place / "environ").write_bytes(environ)


MINE = b"A=1\0QL_RUN_ID=r\0QL_ATTEMPT=2\0QL_STEP=s\0"
KEY = AttemptKey("r", "s", 2)


@pytest.mark.parametrize(
    ("process", "state"),
    [
        ({"ticks": 500, "environ": MINE}, "alive"),
        ({"ticks": 400, "environ": MINE}, "alive"),
        ({"ticks": 399, "environ": MINE}, "gone"),
        ({"ticks": 500, "environ": MINE.replace(b"=2", b"=22")}, "gone"),
        ({"ticks": 500, "environ": MINE.replace(b"=s", b"=t")}, "gone"),
        ({"ticks": 500, "environ": b"X=QL_RUN_ID=r\0QL_ATTEMPT=2\0QL_STEP=s\0"}, "gone"),
        ({"ticks": 500, "environ": b""}, "gone"),
        ({"ticks": 500, "environ": None}, "unverifiable"),
        ({"ticks": 399, "environ": None}, "gone"),
        ({"ticks": 500, "environ": None, "uid": 1001}, "gone"),
        ({"ticks": 500, "environ": None, "flags": 0x0020_0000}, "gone"),
    ],
)
def test_who_carries_the_marks(tmp_path, process, state):
    """I12: an environment that cannot be read is not proof of absence."""
    proc = tmp_path / "proc"
    entry(proc, 7, ticks=1, environ=b"")
    entry(proc, 70, **process)
    host = LinuxHost(tmp_path / "attempts", 1 << 20, use_cgroup=False, proc=str(proc))
    found = host.presence(KEY, Identity(*host.boot(), 60, 400, "", 1000))
    assert (found.state, found.pids) == (state, () if state == "gone" else (70,))


def test_no_process_list_no_verdict(tmp_path):
    host = LinuxHost(tmp_path / "attempts", 1 << 20, use_cgroup=False, proc=str(tmp_path / "nowhere"))
    found = host.presence(KEY, Identity(*host.boot(), 60, 400, "", 1000))
    assert found.state == "unverifiable"


def test_presence_is_cheap(machine):
    """CPU time of a look: some 10 µs for each process, far less by control group; bounds are generous."""
    job = machine.run(text("true"))
    job.wait()
    costs = []
    for _ in range(20):
        start = time.process_time()
        assert job.presence().state == "gone"
        costs.append(time.process_time() - start)
    assert min(costs) < 0.000_1 * len(procfs.pids()) + 0.002
