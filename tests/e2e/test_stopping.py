"""How ``ql up`` stops: Ctrl-C once and twice, SIGTERM with ``--drain``, and as pid 1."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from support.server import IN_NAMESPACE, IS_ROOT, Server, alive, diary, jobs, wait_until

UNTIL_GO = diary("until [ -e go ]; do sleep 0.05; done")
TELLS_STOP = diary("trap 'say stopped; exit 9' TERM; while :; do sleep 0.05; done")


def test_ctrl_c_once_leaves_jobs_to_their_keepers_and_the_next_up_takes_them_over(
    serve: Callable[..., Server],
) -> None:
    """It says so; afterwards the same process ends well, counted once."""
    server = serve(jobs(t=UNTIL_GO), "--drain", "300ms").start()
    run = server.admit("t")
    pid = server.said("start", run).pid
    assert server.stop(signal.SIGINT) == 0
    assert "waiting up to 0.3 s for 1 job(s); again to stop them too" in server.out
    assert "1 job(s) go on under their keepers" in server.out
    assert str(server.data) in server.out
    assert alive(pid)
    missing = server.ql("runs")
    assert missing.code == 5
    assert "not running" in missing.err
    server.start()
    assert "taken over: 1 job(s) from before" in server.out
    assert server.state(run) == "running"
    (server.folder / "go").touch()
    assert server.until(run)["run"]["state"] == "succeeded"
    assert [(line.word, line.pid) for line in server.lines()] == [("start", pid), ("end", pid)]


def test_a_job_that_ends_while_nobody_serves_is_reported_by_the_next_up(serve: Callable[..., Server]) -> None:
    """Its receipt is enough: exit code and output are there."""
    server = serve(
        jobs(t=diary("until [ -e go ]; do sleep 0.05; done; echo out; exit 3")), "--drain", "0ms"
    ).start()
    run = server.admit("t")
    server.said("start", run)
    assert server.stop(signal.SIGTERM) == 0
    (server.folder / "go").touch()
    wait_until(lambda: not server.carriers(), "the job has ended")
    server.start()
    detail = server.until(run)
    assert (detail["run"]["state"], detail["run"]["exit_code"]) == ("failed", 3)
    assert server.log(run) == b"out\n"
    assert len(server.lines(run, "start")) == 1


def test_ctrl_c_twice_stops_the_jobs(serve: Callable[..., Server]) -> None:
    """With their stop signal and grace; they have failed, stopped by the shutdown, and nothing of them is left."""
    server = serve(jobs(t=TELLS_STOP), "--drain", "60s").start()
    run = server.admit("t")
    server.said("start", run)
    server.send(signal.SIGINT)
    server.says("again to stop them too")
    server.send(signal.SIGINT)
    assert server.ended() == 0
    assert server.lines(run, "stopped")
    assert not server.carriers()
    assert "keepers" not in server.out
    server.start()
    detail = server.detail(run)
    assert detail["run"]["state"] == "failed"
    assert "shutdown" in detail["run"]["reason"]


def test_sigterm_waits_for_jobs_as_long_as_drain_says_and_starts_nothing_new(
    serve: Callable[..., Server],
) -> None:
    """A Run that is admitted meanwhile waits for the next ``ql up``; it is not lost (I1)."""
    server = serve(jobs(t=UNTIL_GO, late=diary()), "--drain", "60s").start()
    run = server.admit("t")
    server.said("start", run)
    server.send(signal.SIGTERM)
    server.says("stopping: waiting up to 60 s for 1 job(s)")
    late = server.admit("late")
    (server.folder / "go").touch()
    assert server.ended() == 0
    assert server.lines(run, "end")
    assert "keepers" not in server.out
    assert not server.lines(late)
    server.start()
    assert server.state(run) == "succeeded"
    assert server.until(late)["run"]["state"] == "succeeded"


needs_root = pytest.mark.skipif(not IS_ROOT, reason="a pid namespace needs root here")


@needs_root
def test_as_pid_1_it_stops_its_jobs_on_sigterm(serve: Callable[..., Server]) -> None:
    """They would die with it unasked: they are stopped instead, with their grace, and say how they ended."""
    server = serve(jobs(t=TELLS_STOP), "--drain", "60s", before=IN_NAMESPACE).start()
    run = server.admit("t")
    server.said("start", run)
    server.send(signal.SIGTERM)
    assert server.ended() == 0
    assert server.lines(run, "stopped")
    assert "stopping 1 job(s)" in server.out
    server.start()
    detail = server.detail(run)
    assert detail["run"]["state"] == "failed"
    assert "shutdown" in detail["run"]["reason"]


@needs_root
def test_as_pid_1_it_releases_what_jobs_leave_behind(serve: Callable[..., Server]) -> None:
    """Orphans of a pid namespace become children of its pid 1; ended ones do not pile up as zombies."""
    orphans = "for i in 1 2 3 4 5; do (setsid sleep 0.1 &); done; sleep 0.3"
    server = serve(jobs(t={"run": orphans, "overlap": "allow"}), before=IN_NAMESPACE).start()
    runs = [server.admit("t") for _ in range(3)]
    assert {server.until(run)["run"]["state"] for run in runs} == {"succeeded"}
    children = Path(f"/proc/{server.pid}/task/{server.pid}/children")
    wait_until(lambda: not children.read_text().split(), "pid 1 has no child left")


@needs_root
def test_i3_killed_as_pid_1_its_jobs_are_known_to_have_ended_with_it(serve: Callable[..., Server]) -> None:
    """The kernel ends a pid namespace with its pid 1: the next server knows, and follows each Run's own policy."""
    again = {"max_attempts": 2, "when": ["lost"], "backoff": {"initial": "1s"}}
    safe = {"run": diary("[ $QL_ATTEMPT = 2 ] || sleep 300"), "safety": "idempotent", "retry": again}
    server = serve(jobs(plain=diary("sleep 300"), safe=safe), before=IN_NAMESPACE).start()
    plain, repeated = server.admit("plain"), server.admit("safe")
    for run in (plain, repeated):
        server.said("start", run)
    server.crash()
    wait_until(lambda: not server.carriers(), "the namespace has ended")
    server.start()
    detail = server.until(plain)
    assert (detail["run"]["state"], detail["run"]["reason"]) == ("failed", "lost_retry_disabled")
    assert server.until(repeated)["run"]["state"] == "succeeded"
    assert [line.attempt for line in server.lines(repeated, "start")] == [1, 2]
    assert len(server.lines(plain, "start")) == 1


def test_a_closed_terminal_is_an_orderly_stop_unless_nohup_says_otherwise(
    serve: Callable[..., Server],
) -> None:
    """SIGHUP and Ctrl-C reach the terminal's whole foreground group: the jobs are not in it."""
    server = serve(jobs(t=UNTIL_GO), "--drain", "0ms").start()
    run = server.admit("t")
    pid = server.said("start", run).pid
    os.killpg(server.pid, signal.SIGHUP)
    assert server.ended() == 0
    assert alive(pid)
    server.start()
    os.killpg(server.pid, signal.SIGINT)
    assert server.ended() == 0
    assert alive(pid)
    ignored = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        server.start()
    finally:
        signal.signal(signal.SIGHUP, ignored)
    server.send(signal.SIGHUP)
    (server.folder / "go").touch()
    assert server.until(run)["run"]["state"] == "succeeded"
    assert server.running
    # The job's own signals are the defaults, whatever the server ignores.
    assert {line.pid for line in server.lines(run)} == {pid}
