"""Ending commands: the whole tree and nothing else, by one path for cancel, time-out and shutdown."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable

import pytest

from support.server import IS_ROOT, Server, alive, carriers, cmdline, diary, jobs, kill, wait_until

LOOP = 'trap "" TERM; while :; do sleep 0.2; done'
STUBBORN = f". ./say.sh\nsetsid sh -c '{LOOP}' detached &\nsay start\n{LOOP}\n"
"""Forks, calls setsid, and neither it nor its child heeds SIGTERM."""


def test_case_60_and_62_after_the_grace_the_whole_tree_is_gone_and_neighbours_are_untouched(
    serve: Callable[..., Server],
) -> None:
    """Also a neighbour with the same text, and a stranger whose command line is the detached child's."""
    stop = {"stop": {"grace": "1s"}, "overlap": "allow"}
    server = serve(jobs(t={"run": STUBBORN, **stop}, u={"run": STUBBORN, **stop})).start()
    run, same, other = server.admit("t"), server.admit("t"), server.admit("u")
    for each in (run, same, other):
        server.said("start", each)
        # The keeper, the job's shell, its child and their sleeps.
        wait_until(lambda each=each: _detached(server, each), "the child has detached")
    stranger = subprocess.Popen(["setsid", "sh", "-c", LOOP, "detached"], stdin=subprocess.DEVNULL)
    try:
        tree = set(server.carriers(run))
        neighbours = _shells(server, same) | _shells(server, other)
        ended = server.ql("cancel", run, "--wait")
        assert ended.code == 0
        assert "cancelled" in ended.out
        assert server.state(run) == "cancelled"
        assert carriers(frozenset({run})) == {}
        assert not [pid for pid in tree if alive(pid)]
        assert stranger.poll() is None
        assert all(map(alive, neighbours))
        assert {server.state(same), server.state(other)} == {"running"}
    finally:
        stranger.kill()
        stranger.wait()
    detail = server.detail(run)
    cancelled, stopped = (_at(detail, kind) for kind in ("cancel_requested", "completed"))
    assert stopped - cancelled >= 1_000, "it had its grace"
    assert detail["attempts"][0]["signal"] == 9


def _detached(server: Server, run: str) -> bool:
    return any(cmdline(pid)[-1:] == ["detached"] for pid in server.carriers(run))


def _shells(server: Server, run: str) -> set[int]:
    """The long-lived processes of a Run: its sleeps come and go."""
    return {pid for pid in server.carriers(run) if cmdline(pid)[:1] != ["sleep"]}


def _at(detail: dict, kind: str) -> int:
    return next(event["at_ms"] for event in detail["events"] if event["kind"] == kind)


def test_what_a_finished_command_left_behind_is_stopped_and_recorded(serve: Callable[..., Server]) -> None:
    """A daemon that outlives its job is ended with it; the Event and the story count it."""
    server = serve(jobs(t=diary("setsid sleep 300 >/dev/null 2>&1 </dev/null &"))).start()
    detail = server.until(server.admit("t"))
    assert detail["run"]["state"] == "succeeded"
    completed = next(event for event in detail["events"] if event["kind"] == "completed")
    assert completed["data"]["leftovers"] == 1
    assert "1 process" in completed["text"]
    assert server.carriers() == {}


def test_case_61_a_timeout_is_the_same_from_cron_by_hand_and_through_the_api(
    serve: Callable[..., Server],
) -> None:
    """The state is ``timed_out``, the reason says timeout, the command is gone."""
    slow = {"run": diary("sleep 300"), "timeout": "500ms", "stop": {"grace": "1s"}}
    ticking = {"triggers": [{"id": "tick", "cron": "* * * * * *"}]}
    interval = {"triggers": [{"id": "tick", "every": "1s"}]}
    server = serve(jobs(cron={**slow, **ticking}, every={**slow, **interval}, cli=slow, api=slow)).start()
    follow = server.spawn("run", "cli", "--follow")
    server.admit("api")
    seen = {}
    for name, cause in (("cron", "cron"), ("every", "every"), ("cli", "manual"), ("api", "manual")):
        first = wait_until(lambda name=name: server.runs(task=name), f"{name} runs")[-1]["run_id"]
        detail = server.until(first)
        assert detail["run"]["cause"] == cause
        completed = next(event for event in detail["events"] if event["kind"] == "completed")
        seen[name] = (
            detail["run"]["state"],
            detail["run"]["reason"],
            detail["attempts"][0]["reason"],
            completed["data"]["stopped_by"],
        )
        assert "timeout" in server.ql("explain", first).out
        assert server.carriers(first) == {}
    assert set(seen.values()) == {("timed_out", "timeout", "timeout", "timeout")}
    assert server.finish(follow).code == 124


@pytest.mark.skipif(not IS_ROOT, reason="only root may run a job under another account")
def test_user_runs_the_job_under_that_account_and_it_can_be_cancelled(serve: Callable[..., Server]) -> None:
    """``user: nobody``: its groups and home too, no file of ours readable, and the same stop."""
    server = serve()
    script = f"id -un; id -Gn; echo $HOME; cat {server.data}/token 2>/dev/null || echo ready; sleep 300"
    server.edit(jobs(t={"run": script, "user": "nobody", "cwd": "/", "stop": {"grace": "1s"}}))
    server.start()
    run = server.admit("t")
    wait_until(lambda: b"ready" in server.log(run), "the job speaks")
    assert server.log(run).split() == [b"nobody", b"nogroup", b"/nonexistent", b"ready"]
    assert server.ql("cancel", run, "--wait").code == 0
    assert server.until(run)["run"]["state"] == "cancelled"
    assert server.carriers(run) == {}


def test_a_job_whose_keeper_was_killed_can_still_be_cancelled_and_timed_out(
    serve: Callable[..., Server],
) -> None:
    """Its limits hold without the keeper; afterwards nothing of it is left."""
    stop = {"stop": {"grace": "1s"}}
    server = serve(
        jobs(
            t={"run": diary("sleep 300"), **stop}, u={"run": diary("sleep 300"), "timeout": "2500ms", **stop}
        )
    ).start()
    cancelled, timed = server.admit("t"), server.admit("u")
    for run in (cancelled, timed):
        server.said("start", run)
        kill(server.keeper(run))
    assert server.ql("cancel", cancelled, "--wait").code == 0
    assert server.state(cancelled) == "cancelled"
    detail = server.until(timed)
    assert (detail["run"]["state"], detail["run"]["reason"]) == ("timed_out", "timeout")
    assert server.carriers() == {}


def test_limits_hold_over_a_crash(serve: Callable[..., Server]) -> None:
    """A timeout, a deadline and a start_within that pass while nobody serves take effect at once afterwards."""
    stop = {"stop": {"grace": "1s"}}
    server = serve(
        jobs(
            timeout={"run": diary("sleep 300"), "timeout": "1500ms", **stop},
            deadline={"run": diary("sleep 300"), "deadline": "1500ms", **stop},
            late={"run": diary(), "start_within": "1500ms"},
            quick={"run": diary("until [ -e go ]; do sleep 0.05; done"), "timeout": "1h"},
        ),
        "--slots",
        "3",
    ).start()
    quick = server.admit("quick")
    runs = {name: server.admit(name) for name in ("timeout", "deadline")}
    for run in (quick, *runs.values()):
        server.said("start", run)
    runs["late"] = server.admit("late")
    asked = time.time()
    server.crash()
    wait_until(lambda: time.time() > asked + 1.6, "every limit has passed")
    server.start()
    for name, run in runs.items():
        detail = server.until(run, within=8)
        reason = "start_within" if name == "late" else name
        assert (detail["run"]["state"], detail["run"]["reason"]) == ("timed_out", reason), name
    assert not server.lines(runs["late"])
    assert server.state(quick) == "running"
    (server.folder / "go").touch()
    assert server.until(quick)["run"]["state"] == "succeeded"


def test_a_jobs_environment_holds_nothing_of_the_servers(serve: Callable[..., Server]) -> None:
    """No variable, token or descriptor of ``ql up`` gets through; the fence rises from Run to Run."""
    server = serve(jobs(t="env; ls -l /proc/self/fd; echo; readlink /proc/$$/cwd"))
    server.env |= {
        "QL_DATA": "/elsewhere",
        "QL_RUN_ID": "forged",
        "DB_PASSWORD": "hunter2",
        "LC_ALL": "C.UTF-8",
    }
    server.start()
    fences = []
    for _ in range(2):
        run = server.admit("t")
        server.until(run)
        text = server.log(run).decode()
        names = dict(line.partition("=")[::2] for line in text.splitlines() if "=" in line)
        assert names["QL_RUN_ID"] == run
        assert names["QL_ATTEMPT"] == "1"
        fences.append(int(names["QL_FENCE"]))
        assert {name for name in names if name.startswith("QL_")} == {"QL_RUN_ID", "QL_ATTEMPT", "QL_FENCE"}
        assert "DB_PASSWORD" not in names
        assert server.token not in text
        assert "ledger.db" not in text
        assert "/lock" not in text
        assert text.rstrip().endswith(str(server.folder))
        server.restart()
    assert fences[0] < fences[1]


def test_a_stopped_job_is_ended_by_its_timeout(serve: Callable[..., Server]) -> None:
    """SIGSTOP to itself keeps no command alive past its limit."""
    task = {"run": diary("kill -STOP $$"), "timeout": "500ms", "stop": {"grace": "500ms"}}
    server = serve(jobs(t=task)).start()
    detail = server.until(server.admit("t"))
    assert (detail["run"]["state"], detail["run"]["reason"]) == ("timed_out", "timeout")
    assert server.carriers() == {}
