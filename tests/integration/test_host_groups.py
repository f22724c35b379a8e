"""Control groups (ADR 0017): entered by the keeper itself, seen and killed through, done without."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import pytest

from host_support import HAS_CGROUP, IS_ROOT, SHELLS, Machine, alive, argv, eventually, text
from qinglong.limits import MIB
from qinglong.worker.host import AttemptKey, Identity, Receipt
from qinglong.worker.linux import LinuxHost, cgroup, grouping, launching, procfs, stopping

pytestmark = pytest.mark.skipif(not HAS_CGROUP, reason="no control groups here")
TESTS = Path(__file__).parents[1]
SCRUBBED = "env -i PATH=$PATH setsid"


@pytest.fixture
def machine(tmp_path):
    with Machine(tmp_path) as made:
        assert made.host._groups
        yield made


@pytest.fixture(params=SHELLS, ids=lambda shell: Path(shell[0]).name)
def keeper_shell(request, monkeypatch):
    monkeypatch.setattr(launching, "SHELL", request.param)


@pytest.fixture
def elsewhere():
    """A group beside the one that tests run in, for another server to be started in."""
    folder = Path(grouping.parent()).parent / f"test-{os.getpid()}-{time.monotonic_ns()}"
    try:
        folder.mkdir()
    except OSError:
        pytest.skip("no group can be made here")
    yield folder
    for below in sorted(folder.rglob("*"), reverse=True):
        if below.is_dir():
            eventually(lambda below=below: removed(below))
    assert eventually(lambda: removed(folder))


def removed(group: Path) -> bool:
    cgroup.remove(str(group))
    return not group.exists()


def python(group: Path, code: str, *args: object) -> subprocess.Popen[str]:
    """Another server's process, which begins in ``group``."""
    head = (
        "import os, sys\nfrom pathlib import Path\n"
        "(Path(sys.argv[1]) / 'cgroup.procs').write_text(str(os.getpid()))\n"
        "sys.path.insert(0, sys.argv[2])\n"
        "from qinglong.worker.linux import LinuxHost, cgroup, grouping, launching\n"
        "def place():\n"
        "    lines = Path('/proc/self/cgroup').read_text().splitlines()\n"
        "    return next(line[3:] for line in lines if line[:3] == '0::')\n"
        "before = place()\n"
    )
    words = [sys.executable, "-c", head + code, str(group), str(TESTS), *map(str, args)]
    return subprocess.Popen(words, stdout=subprocess.PIPE, text=True)


def said(process: subprocess.Popen[str]) -> str:
    out, _ = process.communicate(timeout=30)
    assert process.returncode == 0
    return out.strip()


def inside(pid: int, identity: Identity) -> bool:
    return Path(identity.cgroup).name in procfs.group_of(f"/proc/{pid}").split("/")


# Entering


def test_a_keeper_is_in_its_group_before_the_go_byte_and_has_closed_the_entrance(machine, keeper_shell):
    job = machine.launch(text("cat /proc/self/cgroup; ls -l /proc/self/fd"))
    eventually(lambda: inside(job.keeper, job.identity))
    eventually(lambda: os.readlink(f"/proc/{job.keeper}/fd/2") == "/dev/null")
    assert not any("cgroup" in os.readlink(fd) for fd in Path(f"/proc/{job.keeper}/fd").iterdir())
    assert cgroup.populated(job.identity.cgroup) is True
    assert job.go().wait() == Receipt("ended", 0)
    assert Path(job.identity.cgroup).name.encode() in job.log()
    assert b"cgroup.threads" not in job.log()
    assert job.presence().state == "gone"


def test_the_server_is_in_the_parent_group_with_no_attempt_in_it(machine):
    job = machine.run(text("exec sleep 60"))
    command = job.command()
    parent = Path(machine.host._groups)
    in_parent = (parent / "cgroup.procs").read_text().split()
    # The list of a thread root shows every process of its subtree; its threads are its own.
    assert str(os.getpid()) in in_parent
    own = (parent / "cgroup.threads").read_text().split()
    assert str(os.getpid()) in own
    assert not {str(job.keeper), str(command)} & set(own)
    assert inside(command, job.identity)


@pytest.mark.skipif(not IS_ROOT, reason="switching accounts needs root")
def test_a_keeper_under_another_account_enters_too(machine):
    job = machine.run(text(f"{SCRUBBED} sleep 60 & exec sleep 60"), user="nobody", cwd="/")
    command = job.command()
    assert inside(job.keeper, job.identity)
    assert inside(command, job.identity)
    assert job.identity.cgroup
    assert len(eventually(lambda: (p := job.presence().pids) and len(p) == 3 and p)) == 3
    assert job.kill().state == "gone"
    assert cgroup.populated(job.identity.cgroup) is False


def test_a_keeper_that_cannot_enter_runs_nothing(machine, tmp_path, monkeypatch, keeper_shell):
    """Outside of its group the command would be called gone while it runs."""
    original = cgroup.make
    monkeypatch.setattr(
        cgroup,
        "make",
        lambda parent, name: original(parent, name)._replace(entrance=os.open("/dev/full", os.O_WRONLY)),
    )
    job, other = machine.launch(text("touch ran")), machine.launch(text("touch ran"))
    job.handle.go()
    other.handle.abandon()
    assert job.wait() == Receipt("ended", 126)
    assert job.log() == b"qinglong: the control group of this attempt cannot be entered\n"
    assert other.wait() == Receipt("not_begun")
    assert other.log() == b""
    assert not (tmp_path / "ran").exists()
    assert job.presence().state == other.presence().state == "gone"


def test_a_group_that_cannot_be_made_is_done_without(machine, monkeypatch):
    monkeypatch.setattr(machine.host, "_groups", str(machine.tmp))
    job = machine.run(text("exec sleep 60"))
    command = job.command()
    assert job.identity.cgroup == ""
    assert command in job.presence().pids
    assert job.kill().state == "gone"
    assert not any(path.name.startswith(job.key.run_id) for path in machine.tmp.iterdir())


def test_a_failed_start_leaves_no_group(machine):
    before = set(os.listdir(machine.host._groups))
    with pytest.raises(Exception, match="Argument list too long"):
        machine.launch(text("true"), env={f"V{n}": "x" * 130_000 for n in range(80)})
    assert not [name for name in set(os.listdir(machine.host._groups)) - before if name.startswith("-")]


def test_the_keeper_enters_by_the_words_that_were_tried():
    assert f"\n{launching.ENTER} ||" in launching.KEEPER


# Seeing and killing through the group


def test_what_scrubbed_its_environment_and_left_is_seen_and_killed(machine, tmp_path):
    job = machine.run(text(f"{SCRUBBED} sh -c 'echo $$ >pid.new; mv pid.new pid; exec sleep 60' & wait"))
    left = int(eventually(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text()))
    command = job.command()
    for pid in (job.keeper, command):
        os.kill(pid, signal.SIGKILL)
    job.wait()
    eventually(lambda: job.presence().pids == (left,))
    assert job.kill().state == "gone"
    assert not alive(left)


FORKS = """
import os, sys
for _ in range(1):
    if os.fork() == 0:
        os.setsid()
        break
else:
    print("up", flush=True)
while True:
    if os.fork(): os._exit(0)
"""


def test_a_fork_loop_is_ended_within_the_bound(machine, tmp_path):
    """Chains of processes that live shorter than it takes to read them, detached, without our marks."""
    (tmp_path / "forks.py").write_text(FORKS)
    job = machine.run(argv("env", "-i", sys.executable, "-I", "forks.py"))
    job.says("up")
    command = job.command()
    eventually(lambda: not alive(command))
    assert job.presence().state == "alive"
    start = time.monotonic()
    assert job.kill().state == "gone"
    assert time.monotonic() - start < stopping.KILL_S
    assert cgroup.populated(job.identity.cgroup) is False
    assert cgroup.frozen(job.identity.cgroup) is False


def test_a_stop_of_what_forks_lets_the_keeper_write_its_receipt(machine, tmp_path):
    (tmp_path / "forks.py").write_text(FORKS)
    job = machine.run(text(f"{SCRUBBED} {sys.executable} -I forks.py & exec sleep 60"))
    job.says("up")
    assert job.kill().state == "gone"
    assert job.wait() == Receipt("ended", signal=signal.SIGKILL)


def test_a_process_whose_first_thread_has_ended_is_seen_and_killed(machine):
    code = (
        "import ctypes, threading, time\n"
        "threading.Thread(target=lambda: (print('up', flush=True), time.sleep(60))).start()\n"
        "ctypes.CDLL(None).pthread_exit(None)\n"
    )
    job = machine.run(text(f'{SCRUBBED} {sys.executable} -I -c "{code}" & exit 0'))
    job.wait()
    job.says("up")
    left = eventually(lambda: (p := job.presence().pids) and procfs.read_stat(p[0]).state == "Z" and p)
    assert len(left) == 1
    assert job.kill().state == "gone"
    assert not alive(left[0])


def test_groups_that_a_job_made_below_its_own_belong_to_it(machine, tmp_path):
    job = machine.run(
        text(
            "g=$GROUPS_AT/$(sed -n 's,^0::.*/,,p' /proc/self/cgroup)/below; mkdir $g; echo threaded >$g/cgroup.type\n"
            f"{SCRUBBED} sh -c 'echo 0 >$1/cgroup.threads && echo up; exec sleep 60' sh $g & exit 0"
        ),
        env={"GROUPS_AT": machine.host._groups},
    )
    job.wait()
    job.says("up")
    assert len(eventually(lambda: job.presence().pids)) == 1
    assert job.kill().state == "gone"
    job.host.discard(job.key)
    assert not Path(job.identity.cgroup).exists()


def test_nobody_outside_of_the_group_is_killed(machine):
    """A thread's number that meanwhile means a stranger."""
    job = machine.run(text("exec sleep 60"))
    job.command()
    stranger = subprocess.Popen(["sleep", "60"])
    try:
        name = Path(job.identity.cgroup).name
        for pid in (stranger.pid, os.getpid()):
            cgroup._kill_process_of(pid, name, 0)
        cgroup._kill_process_of(job.keeper, name, job.keeper)
        assert stranger.poll() is None
        assert job.presence().state == "alive"
        assert alive(job.keeper)
    finally:
        stranger.kill()
        stranger.wait()


# Several servers, and the next one


def test_two_servers_share_the_parent_group(machine, tmp_path):
    (tmp_path / "two").mkdir()
    with Machine(tmp_path / "two") as other:
        assert other.host._groups == machine.host._groups
        one, two = machine.run(text("exec sleep 60")), other.run(text("exec sleep 60"))
        command = two.command()
        one.command()
        assert one.kill().state == "gone"
        assert two.presence().state == "alive"
        assert alive(command)


SERVER = """
import json, msgspec
from qinglong.domain.definitions import Command, TaskSpec
from qinglong.worker.host import AttemptKey, Launch
host = LinuxHost(Path(sys.argv[3]), 1 << 20)
spec = TaskSpec("t", Command("text", text=sys.argv[4]), cwd=sys.argv[3])
handle = host.launch(Launch(AttemptKey(sys.argv[5], "", 1), spec, 1, None))
handle.go()
print(json.dumps([msgspec.to_builtins(handle.identity), host._groups]), flush=True)
os.kill(os.getpid(), 9)
"""


def test_the_next_server_sees_and_kills_through_the_groups_of_the_last(tmp_path, elsewhere):
    words = f"{SCRUBBED} sh -c 'echo $$ >pid.new; mv pid.new pid; exec sleep 60' & exec sleep 60"
    dead = python(elsewhere, SERVER, tmp_path, words, f"run-{os.getpid()}")
    raw, groups = json.loads(dead.communicate(timeout=30)[0])
    identity, key = msgspec.convert(raw, Identity), AttemptKey(f"run-{os.getpid()}", "", 1)
    assert groups == str(elsewhere / "qinglong")
    assert Path(identity.cgroup).parent == Path(groups)
    left = int(eventually(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text()))
    host = LinuxHost(tmp_path, MIB)
    handle = host.reattach(key, identity)
    assert handle is not None
    assert left in host.presence(key, identity).pids
    assert asyncio.run(host.kill(key, identity)).state == "gone"
    assert not alive(left)
    asyncio.run(asyncio.wait_for(handle.ended(), 10))
    handle.close()
    assert host.receipt(key) == Receipt("ended", signal=signal.SIGKILL)


def test_a_server_that_is_in_such_a_group_already_stays_in_it(elsewhere):
    code = "first, second = grouping.parent(), grouping.parent(); print(before, place(), first, second)"
    before, after, first, second = said(python(elsewhere, code)).split()
    assert after == f"{before}/qinglong"
    assert first == second == str(elsewhere / "qinglong")
    assert os.listdir(elsewhere / "qinglong") == [
        name for name in os.listdir(elsewhere / "qinglong") if not (elsewhere / "qinglong" / name).is_dir()
    ]


# Where it cannot be


@pytest.mark.parametrize(
    "trouble",
    [
        pytest.param("launching.ENTER = 'exit 1'", id="a shell cannot enter"),
        pytest.param("launching.SHELL = ('/nowhere',)", id="no shell"),
        pytest.param(
            "launching.SHELL = ('sh', '-c', 'exec sleep 60', 'sh'); grouping._PROBE_S = 0.2", id="hangs"
        ),
        pytest.param("cgroup.make = lambda *_: None", id="no threaded groups"),
        pytest.param("grouping.NAME = 'x/y'", id="no folder"),
    ],
)
def test_without_groups_the_server_stays_where_it_was(elsewhere, trouble):
    code = f"{trouble}\nassert grouping.parent() == ''\nprint(before, place())"
    before, after = said(python(elsewhere, code)).split()
    assert before == after
    assert not (elsewhere / "qinglong").exists()


def test_processes_in_an_ordinary_group_below_it_are_in_the_way(elsewhere):
    """As an older version's jobs would be: the kernel mixes no domains into a threaded subtree."""
    (elsewhere / "qinglong" / "old").mkdir(parents=True)
    old = subprocess.Popen(["sleep", "60"])
    try:
        (elsewhere / "qinglong" / "old" / "cgroup.procs").write_text(str(old.pid))
        before, after = said(
            python(elsewhere, "print(before, place()) if not grouping.parent() else None")
        ).split()
        assert before == after
    finally:
        old.kill()
        old.wait()


def test_a_server_inside_a_job_does_without_and_its_jobs_belong_to_the_outer_one(machine, tmp_path):
    (tmp_path / "inner.py").write_text(
        "import sys\nfrom pathlib import Path\nsys.path.insert(0, sys.argv[1])\n"
        "from host_support import HAS_CGROUP, Machine, text\n"
        "(Path(sys.argv[2]) / 'in').mkdir()\n"
        "with Machine(Path(sys.argv[2]) / 'in') as machine:\n"
        "    job = machine.run(text('exec sleep 60'))\n"
        "    print(HAS_CGROUP, job.identity.cgroup or 'none', job.command(), flush=True)\n"
        "    job.wait()\n"
    )
    job = machine.run(argv(sys.executable, "inner.py", str(TESTS), str(tmp_path)))
    has, group, command = job.says("\n").split()
    assert (has, group) == (b"False", b"none")
    assert inside(int(command), job.identity)
    assert job.kill().state == "gone"
    assert not alive(int(command))
    job.wait()
    job.host.discard(job.key)
    assert not Path(job.identity.cgroup).exists()
