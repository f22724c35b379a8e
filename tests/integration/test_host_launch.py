"""How a command is started: argv, script, shell, account, environment. Real keepers, real commands."""

from __future__ import annotations

import errno
import hashlib
import os
import pwd
import shutil
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from host_support import HAS_CGROUP, IS_ROOT, SHELLS, Machine, argv, eventually, script, text
from qinglong.domain.definitions import Secret
from qinglong.worker.host import AttemptKey, Receipt, Shortage, StartFailed
from qinglong.worker.linux import environment, launching

NASTY = "a'b\"c$(id)\n${HOME}`id`é"
NEEDS_ROOT = pytest.mark.skipif(not IS_ROOT, reason="switching accounts needs root")


@pytest.fixture
def machine(tmp_path):
    with Machine(tmp_path) as made:
        yield made


@pytest.fixture(params=SHELLS, ids=lambda shell: Path(shell[0]).name)
def keeper_shell(request, monkeypatch):
    monkeypatch.setattr(launching, "SHELL", request.param)


def fails(machine, *args, **more):
    """The reason of a launch that must fail, having left nothing behind."""
    with pytest.raises(StartFailed) as caught:
        machine.launch(*args, **more)
    assert list(machine.folder.rglob("*")) == []
    return caught.value.reason


# What is run


def test_text_runs_under_sh_e(machine):
    job = machine.run(text("echo one; false; echo two"))
    assert job.wait() == Receipt("ended", 1)
    assert job.log() == b"one\n"


def test_text_runs_under_bash_with_pipefail(machine):
    job = machine.run(text("false | true; echo not reached", shell="bash"))
    assert job.wait() == Receipt("ended", 1)
    assert job.log() == b""


def test_argv_runs_without_a_shell(machine):
    assert machine.output(argv("printf", "%s|", "a b", "$HOME", "*", "-n", "")) == b"a b|$HOME|*|-n||"


def test_relative_program_is_found_in_the_working_folder(machine, tmp_path):
    program = tmp_path / "tool"
    program.write_text('#!/bin/sh\necho "tool $1"\n')
    program.chmod(0o755)
    assert machine.output(argv("./tool", "x")) == b"tool x\n"


def test_a_missing_program_is_told_before_anything_starts(machine, tmp_path):
    assert "'no-such-program' is not in the job's PATH" in fails(machine, argv("no-such-program"))
    assert "no such program, or not executable" in fails(machine, argv(str(tmp_path)))
    assert "no program is named" in fails(machine, argv())


def test_path_of_the_job_is_the_one_that_counts(machine, tmp_path):
    assert "not in the job's PATH" in fails(machine, argv("printf", "x"), env={"PATH": str(tmp_path)})


def test_script_with_interpreter_by_suffix_and_digest(machine, tmp_path):
    file = tmp_path / "hello.py"
    file.write_text("import sys; print('hello', sys.argv[1:])")
    job = machine.run(script("hello.py", "--all"))
    assert job.wait() == Receipt("ended", 0)
    assert job.log() == b"hello ['--all']\n"
    assert job.handle.digests == {str(file): hashlib.sha256(file.read_bytes()).hexdigest()}


def test_executable_script_runs_by_its_own_first_line(machine, tmp_path):
    file = tmp_path / "odd.py"
    file.write_text("#!/bin/sh\necho by sh")
    assert "by sh" not in machine.run(script(file)).log().decode()
    file.chmod(0o755)
    assert machine.output(script(file)) == b"by sh\n"


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("gone.sh", "No such file"),
        ("folder.sh", "Is a directory"),
        ("fifo.sh", "not a regular file"),
        ("plain", "no interpreter is known"),
        ("lua.lua", "'lua' is not in the job's PATH"),
    ],
)
def test_script_that_cannot_run_is_told_before_anything_starts(machine, tmp_path, name, reason):
    (tmp_path / "folder.sh").mkdir()
    os.mkfifo(tmp_path / "fifo.sh")
    (tmp_path / "plain").write_text("x")
    (tmp_path / "lua.lua").write_text("x")
    assert reason in fails(machine, script(name), env={"PATH": "/nowhere"})


def test_missing_working_folder(machine, tmp_path):
    assert "no such folder" in fails(machine, text("true"), cwd=str(tmp_path / "gone"))


# Values


@pytest.mark.parametrize("program", ["sh", "python", "node"])
def test_case_58_values_arrive_byte_for_byte(machine, tmp_path, program, keeper_shell):
    if program == "node" and not shutil.which("node"):
        pytest.skip("no node here")
    secret = tmp_path / "secret"
    secret.write_bytes(NASTY.encode() + b"\n")
    (tmp_path / "vars").write_text("FROM_FILE='a\"b\\c$(id)`id`é'\n")
    commands = {
        "sh": text('for v in "$V" "$S" "$FROM_FILE"; do printf %s "$v" | sha256sum; done'),
        "python": argv(
            "python3",
            "-c",
            "import os, hashlib\nfor n in (b'V', b'S', b'FROM_FILE'):"
            " print(hashlib.sha256(os.environb[n]).hexdigest())",
        ),
        "node": argv(
            "node",
            "-e",
            "for (const n of ['V', 'S', 'FROM_FILE'])"
            " console.log(require('crypto').createHash('sha256').update(process.env[n]).digest('hex'))",
        ),
    }
    log = machine.output(
        commands[program],
        env={"V": NASTY},
        secrets={"S": Secret(str(secret))},
        env_file=(str(tmp_path / "vars"),),
    )
    seen = [line.split()[0].decode() for line in log.splitlines()]
    expected = [NASTY, NASTY, 'a"b\\c$(id)`id`é']
    assert seen == [hashlib.sha256(value.encode()).hexdigest() for value in expected]


def test_case_58_every_byte_survives_the_keeper(machine, tmp_path, keeper_shell):
    every = bytes(range(1, 256))
    (tmp_path / "value").write_bytes(every + b"\n\n")
    prints = "import os, sys; sys.stdout.buffer.write(os.environb[b'V'] + b'|' + os.fsencode(sys.argv[1]))"
    log = machine.output(
        argv("python3", "-c", prints, every.decode("utf-8", "surrogateescape")),
        secrets={"V": Secret(str(tmp_path / "value"))},
    )
    assert log == every + b"\n|" + every


def test_environment_is_clean(machine, monkeypatch, keeper_shell):
    for name in ("QL_TOKEN", "QL_DATA", "DATABASE_URL", "VIRTUAL_ENV", "PGPASSWORD", "LC_CTYPE"):
        monkeypatch.setenv(name, "leak")
    monkeypatch.setenv("LANG", "C.UTF-8")
    monkeypatch.setenv("TZ", "Europe/Berlin")
    monkeypatch.delenv("LC_ALL", raising=False)
    monkeypatch.setenv("TMPDIR", "/var/tmp")
    log = machine.output(argv("env", "-0"), scheduled_ms=1_700_000_000_000, env={"MODE": "0755"})
    seen = dict(entry.split(b"=", 1) for entry in log.split(b"\0")[:-1])
    run_id = machine.jobs[-1].key.run_id.encode()
    me = pwd.getpwuid(os.geteuid())
    for shells_own in (b"PWD", b"OLDPWD", b"SHLVL", b"_"):
        seen.pop(shells_own, None)
    assert seen.pop(b"PATH")
    assert seen == {
        b"HOME": os.fsencode(me.pw_dir),
        b"USER": os.fsencode(me.pw_name),
        b"LOGNAME": os.fsencode(me.pw_name),
        b"SHELL": os.fsencode(me.pw_shell),
        b"LANG": b"C.UTF-8",
        b"TZ": b"Europe/Berlin",
        b"TMPDIR": b"/var/tmp",
        b"MODE": b"0755",
        b"QL_RUN_ID": run_id,
        b"QL_ATTEMPT": b"1",
        b"QL_FENCE": b"7",
        b"QL_SCHEDULED_AT": b"2023-11-14T22:13:20Z",
    }


def test_our_variables_cannot_be_overridden(machine):
    key = AttemptKey(f"run-{os.getpid()}", "build", 3)
    log = machine.output(
        text("env | grep ^QL_ | sort"), key=key, env={"QL_RUN_ID": "x", "QL_SCHEDULED_AT": "x"}
    )
    assert log.decode().split() == ["QL_ATTEMPT=3", "QL_FENCE=7", f"QL_RUN_ID={key.run_id}", "QL_STEP=build"]


def test_later_sources_win(machine, tmp_path):
    (tmp_path / "one").write_text("A=one\nB=one\nC=one\nD=one\n")
    (tmp_path / "two").write_text("B=two\nC=two\nD=two\n")
    (tmp_path / "d").write_text("secret\n")
    job = machine.run(
        text('echo "$A $B $C $D"'),
        env_file=(str(tmp_path / "one"), str(tmp_path / "two")),
        env={"C": "env", "D": "env"},
        secrets={"D": Secret(str(tmp_path / "d"))},
    )
    job.wait()
    assert job.log() == b"one two env secret\n"
    assert set(job.handle.digests) == {str(tmp_path / "one"), str(tmp_path / "two")}


def test_bad_values_are_told_before_anything_starts(machine, tmp_path):
    (tmp_path / "vars").write_text("GOOD=1\nnot a line, but a password\n")
    (tmp_path / "nul").write_bytes(b"a\0b")
    reason = fails(machine, text("true"), env_file=(str(tmp_path / "vars"),))
    assert reason.endswith("vars:2: not of the form NAME=value")
    assert "No such file" in fails(machine, text("true"), secrets={"S": Secret("/nowhere")})
    assert "NUL" in fails(machine, text("true"), secrets={"S": Secret(str(tmp_path / "nul"))})
    assert "NUL" in fails(machine, argv("printf", "a\0b"))
    assert "longer than" in fails(machine, text("true"), env={"V": "x" * environment.STRING_BYTES})
    assert "longer than" in fails(machine, text("#" * environment.STRING_BYTES))


def test_an_environment_too_large_for_the_kernel(machine):
    large = {f"V{n}": "x" * 130_000 for n in range(80)}
    assert "Argument list too long" in fails(machine, text("true"), env=large)


# What surrounds it


def test_the_command_gets_a_plain_process(machine, tmp_path, keeper_shell):
    """stdin /dev/null, no descriptor of ours, no ignored or blocked signal, umask 022, own session."""
    looks = (
        "import os, stat\n"
        "print(sorted(int(fd) for fd in os.listdir('/proc/self/fd') if os.path.exists('/proc/self/fd/' + fd)))\n"
        "print(os.readlink('/proc/self/fd/0'), os.getcwd())\n"
        "sets = [l.split()[1] for l in open('/proc/self/status') if l[:4] in ('SigB', 'SigI')]\n"
        "print([f'{int(s, 16) & ~(3 << 31):016x}' for s in sets])\n"  # 32 and 33 are the C library's own
        "m = os.umask(0); print(oct(m)); print(os.getsid(0) == os.getpgid(0) == os.getppid())\n"
    )
    (tmp_path / "look.py").write_text(looks)
    old = os.umask(0o077)
    try:
        log = machine.output(argv(sys.executable, "-I", "look.py")).decode().splitlines()
    finally:
        os.umask(old)
    assert log[0] == "[0, 1, 2]"
    assert log[1] == f"/dev/null {tmp_path}"
    # Python itself ignores SIGPIPE and SIGXFSZ.
    ignored = 1 << (signal.SIGPIPE - 1) | 1 << (signal.SIGXFSZ - 1)
    assert log[2] == str([f"{0:016x}", f"{ignored:016x}"])
    assert log[3:] == ["0o22", "True"]


def test_signals_that_the_worker_was_started_ignoring_are_not_passed_on(tmp_path):
    """``nohup ql up`` must not make every job deaf to SIGHUP."""
    program = (
        "import sys; from pathlib import Path; sys.path.insert(0, sys.argv[2])\n"
        "from host_support import Machine, text\n"
        "with Machine(Path(sys.argv[1])) as machine:\n"
        "    print(machine.output(text('grep SigIgn /proc/self/status')).decode())\n"
    )
    deaf = "trap '' HUP INT QUIT; exec \"$@\""
    tests = str(Path(__file__).parents[1])
    words = ["sh", "-c", deaf, "sh", sys.executable, "-c", program, str(tmp_path), tests]
    done = subprocess.run(words, capture_output=True, text=True, check=True, timeout=30)
    word, ignored = done.stdout.split()
    libc = 3 << 31  # signals 32 and 33 are the C library's own: nobody else can set them
    assert (word, int(ignored, 16) & ~libc) == ("SigIgn:", 0)


def test_stdout_and_stderr_keep_their_order_and_bytes(machine, keeper_shell):
    job = machine.run(text(r"printf 'a\000\377'; printf b >&2; printf c; kill -TERM $$"))
    assert job.wait() == Receipt("ended", signal=signal.SIGTERM)
    assert job.log() == b"a\0\xffbc"


def test_steps_and_numbers_have_logs_of_their_own(machine):
    for step, number in (("", 1), ("", 2), ("a", 1), ("-", 1), ("../x", 1), ("é" * 128, 1)):
        key = AttemptKey(f"run-{os.getpid()}", step, number)
        assert machine.output(text('printf %s "$QL_STEP$QL_ATTEMPT"'), key=key) == f"{step}{number}".encode()
    logs = {job.log_path for job in machine.jobs}
    assert len(logs) == 6
    assert {log.parent for log in logs} == {machine.folder / f"run-{os.getpid()}"}


# Accounts


@NEEDS_ROOT
def test_user_switches_ids_groups_and_names(machine):
    nobody = pwd.getpwnam("nobody")
    job = machine.run(
        text('id -u; id -g; id -G; echo "$USER $LOGNAME $HOME $SHELL"; grep ^Uid: /proc/self/status'),
        user="nobody",
        cwd="/",
    )
    assert job.wait() == Receipt("ended", 0)
    groups = " ".join(map(str, os.getgrouplist("nobody", nobody.pw_gid)))
    assert job.log().decode().splitlines() == [
        str(nobody.pw_uid),
        str(nobody.pw_gid),
        groups,
        f"nobody nobody {nobody.pw_dir} {nobody.pw_shell}",
        "Uid:" + f"\t{nobody.pw_uid}" * 4,
    ]
    assert job.identity.uid == nobody.pw_uid
    assert job.presence().state == "gone"


@NEEDS_ROOT
def test_user_works_below_folders_it_cannot_enter_and_may_not_write_its_receipt(tmp_path):
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    with Machine(closed) as machine:
        job = machine.run(text("echo again >>/dev/stdout; exec sleep 60"), user="nobody", cwd="/")
        assert job.command() != job.keeper
        assert job.says("again") == b"again\n"
        files = {path.suffix: path.stat() for path in job.log_path.parent.iterdir()}
        assert files[".receipt"].st_uid == 0
        assert stat.S_IMODE(files[".receipt"].st_mode) == 0o600
        assert files[".log"].st_uid == job.identity.uid
        assert job.presence().state == "alive"
        assert job.kill().state == "gone"
        assert job.wait() == Receipt("ended", signal=signal.SIGKILL)


@NEEDS_ROOT
def test_a_pid_file_written_by_the_job_cannot_point_at_anothers_process(machine):
    """The pid file belongs to the job's user; whatever it says, only that user's processes count."""
    mine = subprocess.Popen(["sleep", "60"])
    try:
        stat_line = Path(f"/proc/{mine.pid}/stat").read_text()
        job = machine.run(text("exec sleep 60"), user="nobody", cwd="/")
        job.command()
        pid_file = job.log_path.with_suffix(".pid")
        pid_file.write_text(stat_line)
        assert job.kill().state == "gone"
        assert mine.poll() is None
    finally:
        mine.kill()
        mine.wait()


def test_unknown_user(machine):
    assert "no such account" in fails(machine, text("true"), user="no-such-user")


def test_user_needs_root(machine, monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 12_345)
    assert "runs as root" in fails(machine, text("true"), user="nobody")


@pytest.mark.skipif(not HAS_CGROUP, reason="no control groups here")
def test_each_attempt_has_a_control_group_until_it_is_discarded(machine):
    job = machine.run(text("exec sleep 60"))
    group = Path(job.identity.cgroup)
    eventually(lambda: str(job.keeper) in (group / "cgroup.threads").read_text().split())
    job.kill()
    job.wait()
    job.host.discard(job.key)
    assert not group.exists()


def test_what_the_machine_lacks_for_a_while_is_no_fault_of_the_command(machine, monkeypatch):
    def full() -> tuple[int, int]:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.setattr(os, "pipe", full)
    with pytest.raises(Shortage, match="Too many open files"):
        machine.launch(argv("true"))
