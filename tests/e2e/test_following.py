"""``ql run --follow`` and ``ql logs``: exit codes, live output, and Ctrl-C that only detaches."""

from __future__ import annotations

import hashlib
import shutil
import signal
from collections.abc import Callable
from subprocess import Popen

from support.server import Server, diary, jobs, wait_until

VALUE = "a'b\"c$(id)\n${HOME}`id`é"
"""Case 58: everything that a shell might touch."""


def test_follow_ends_with_the_jobs_code(serve: Callable[..., Server]) -> None:
    """0, the job's own, 128 + n for a signal, 124 timed out, 125 for anything else; stdout is the job's output."""
    tasks = {
        "good": "echo one; echo two",
        "three": "echo before; exit 3",
        "term": "kill -TERM $$",
        "slow": {"run": "sleep 300", "timeout": "300ms"},
        "no-program": {"run": ["/no/such/program"]},
        "cancelled": "sleep 300",
        "late": {"run": "sleep 300", "deadline": "500ms", "stop": {"grace": "1s"}},
    }
    server = serve(jobs(**tasks), "--slots", "8").start()
    following = {name: server.spawn("run", name, "--follow") for name in tasks}
    wait_until(lambda: server.runs(task="cancelled", state="running"), "it runs")
    assert server.ql("cancel", "cancelled").code == 0
    done = {name: server.finish(process) for name, process in following.items()}
    codes = {name: each.code for name, each in done.items()}
    assert codes == {
        "good": 0,
        "three": 3,
        "term": 143,
        "slow": 124,
        "no-program": 125,
        "cancelled": 125,
        "late": 124,
    }
    assert done["good"].out == "one\ntwo\n"
    assert done["three"].out == "before\n"
    assert "succeeded" in done["good"].err
    assert "/no/such/program" in done["no-program"].err
    assert server.ql("run", "no-such-task", "--follow").code == 3


def test_ctrl_c_detaches_and_the_run_goes_on(serve: Callable[..., Server]) -> None:
    """Of ``run --follow`` and of ``logs -f``; live output comes while the job runs, over a restart of the server."""
    server = serve(jobs(t=diary("echo one; until [ -e go ]; do sleep 0.05; done; echo two"))).start()
    follow = server.spawn("run", "t", "--follow")
    assert _line(follow) == b"one\n"
    run = server.runs(task="t")[0]["run_id"]
    logs = server.spawn("logs", "-f", run)
    other = server.spawn("logs", "-f", "t")
    assert _line(logs) == b"one\n"
    assert _line(other) == b"one\n"
    for process in (follow, other):
        process.send_signal(signal.SIGINT)
    detached = server.finish(follow)
    assert detached.code == 130
    assert "goes on" in detached.err
    assert server.finish(other).code == 130
    assert server.state(run) == "running"
    server.options = ("--port", str(server.address[1]))
    server.restart()
    (server.folder / "go").touch()
    ended = server.finish(logs)
    assert (ended.code, ended.out) == (0, "two\n")
    assert server.until(run)["run"]["state"] == "succeeded"
    assert server.ql("logs", run).out == "one\ntwo\n"


def _line(process: Popen[bytes]) -> bytes:
    """The next line; the test's own time-out is the bound."""
    assert process.stdout is not None
    return process.stdout.readline()


def test_case_58_a_value_reaches_sh_python_and_node_as_it_is(serve: Callable[..., Server]) -> None:
    """The sha256 that each of them sees is that of the value; nothing was expanded on the way."""
    programs = {
        "sh": 'printf %s "$VALUE" | sha256sum',
        "python": {
            "run": [
                "python3",
                "-c",
                "import os,hashlib;print(hashlib.sha256(os.environb[b'VALUE']).hexdigest())",
            ]
        },
        "node": {
            "run": [
                "node",
                "-e",
                "console.log(require('crypto').createHash('sha256').update(process.env.VALUE,'utf8').digest('hex'))",
            ]
        },
    }
    if shutil.which("node") is None:
        del programs["node"]
    tasks = {
        name: {**(program if isinstance(program, dict) else {"run": program}), "env": {"VALUE": VALUE}}
        for name, program in programs.items()
    }
    server = serve(jobs(**tasks)).start()
    following = {name: server.spawn("run", name, "--follow") for name in tasks}
    seen = {name: server.finish(process).out.split()[0] for name, process in following.items()}
    assert seen == dict.fromkeys(tasks, hashlib.sha256(VALUE.encode()).hexdigest())


def test_a_persons_questions_are_answered(serve: Callable[..., Server]) -> None:
    """``runs``, ``tasks``, ``show``, ``explain``, ``version``: for people and as JSON; unknown names are exit 3."""
    server = serve(jobs(good="echo hi", bad="exit 2")).start()
    good, bad = server.admit("good"), server.admit("bad")
    server.until(good)
    server.until(bad)
    listed = server.ql("runs").out
    assert good[-8:] in listed
    assert "succeeded" in listed
    assert "failed" in listed
    assert [run["task"] for run in server.json("runs", "--state", "failed")["runs"]] == ["bad"]
    assert {task["name"] for task in server.json("tasks")["tasks"]} == {"good", "bad"}
    assert "exit code 2" in server.ql("show", "bad").out
    story = server.ql("explain", bad[-8:]).out
    assert "started task bad" in story
    assert "exit code 2" in story
    assert server.json("version")
    for command in ("show", "explain", "logs", "cancel"):
        missing = server.ql(command, "nothing-of-that-name")
        assert missing.code == 3, missing
    assert server.ql("cancel", good).code == 4
