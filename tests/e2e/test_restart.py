"""Restarts and crashes of one machine's server: what ran goes on, what was acknowledged runs, nothing runs twice."""

from __future__ import annotations

import signal
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from qinglong.sqlite import connect
from support.server import Server, alive, diary, every, jobs, kill, wait_until

UNTIL_GO = diary("until [ -e go ]; do sleep 0.05; done")
"""A job that ends well once the file ``go`` is there."""


def test_case_1_a_running_job_outlives_a_crash_and_an_edit(serve: Callable[..., Server]) -> None:
    """Restart S, then edit T: R stays running, same pid, ends succeeded; nothing is reset to idle."""
    server = serve(jobs(t=UNTIL_GO)).start()
    run = server.admit("t")
    pid = server.said("start", run).pid
    server.restart()
    assert server.state(run) == "running"
    server.edit(jobs(t={"run": UNTIL_GO, "notes": "edited"}, other="true"))
    server.says("changed: t")
    assert server.state(run) == "running"
    assert alive(pid)
    (server.folder / "go").touch()
    detail = server.until(run)
    assert detail["run"]["state"] == "succeeded"
    assert detail["run"]["revision"] == 1
    assert [line.word for line in server.lines(run)] == ["start", "end"]
    assert {line.pid for line in server.lines(run)} == {pid}
    assert len(detail["attempts"]) == 1
    assert "adopted" in [event["kind"] for event in detail["events"]]


def test_case_3_the_next_tick_fires_after_server_and_keeper_were_killed(
    serve: Callable[..., Server],
) -> None:
    """overlap=skip: R is resolved once its command is known to have ended, and only then the next tick fires."""
    body = diary("[ -e quick ] || until [ -e go ]; do sleep 0.05; done")
    server = serve(jobs(t={"run": body, **every("1s"), "overlap": "skip"})).start()
    first = server.said("start")
    keeper = server.keeper(first.run)
    server.crash()
    kill(keeper)
    server.start()
    (server.folder / "quick").touch()
    wait_until(
        lambda: server.skips("t").get("overlap", 0) >= 2, "ticks are skipped while the command goes on"
    )
    assert server.state(first.run) == "running"
    (server.folder / "go").touch()
    ended = server.until(first.run)
    assert ended["run"]["state"] == "failed"
    assert ended["run"]["reason"] == "lost_retry_disabled"
    later = wait_until(
        lambda: [line for line in server.lines(word="end") if line.run != first.run], "a later tick"
    )
    assert server.until(later[0].run)["run"]["state"] == "succeeded"
    assert len(server.lines(first.run, "start")) == 1
    assert later[0].at_ms >= server.lines(first.run, "end")[0].at_ms


def test_case_15_a_tick_at_the_restart_is_skipped_while_its_task_runs(serve: Callable[..., Server]) -> None:
    """Reason "overlap"; by hand it is refused too, and the override is explicit."""
    server = serve(jobs(t={"run": UNTIL_GO, **every("4s"), "overlap": "skip"})).start()
    first = server.said("start")
    tick = server.task("t")["task"]["next_ms"]
    wait_until(lambda: time.time() * 1000 >= tick - 50, "just before the tick")
    server.crash()
    server.start()
    wait_until(
        lambda: any(skip["at_ms"] == tick for skip in server.task("t").get("skipped", [])), "it is skipped"
    )
    assert {skip["reason"] for skip in server.task("t")["skipped"]} == {"overlap"}
    refused = server.ql("run", "t")
    assert refused.code == 4
    assert first.run in refused.err
    assert "--allow-overlap" in refused.err
    beside = server.json("run", "t", "--allow-overlap")["run_id"]
    server.said("start", beside)
    assert server.state(first.run) == "running"
    (server.folder / "go").touch()
    assert server.until(first.run)["run"]["state"] == "succeeded"
    detail = server.until(beside)
    assert detail["run"]["state"] == "succeeded"
    assert detail["events"][0]["data"]["override"] is True
    assert not [run for run in server.runs(task="t") if run.get("scheduled_ms") == tick]


def test_case_21_a_cancelled_run_stays_cancelled_over_a_crash(serve: Callable[..., Server]) -> None:
    """Cancel R, then kill S: R ends cancelled and is never dispatched (again)."""
    server = serve(
        jobs(t={"run": UNTIL_GO, "overlap": "allow", "stop": {"grace": "1s"}}), "--slots", "1"
    ).start()
    running = server.admit("t")
    server.said("start", running)
    waiting = server.admit("t")
    assert server.ql("cancel", waiting).code == 0
    assert server.ql("cancel", running).code == 0
    server.restart()
    assert server.until(running)["run"]["state"] == "cancelled"
    detail = server.until(waiting)
    assert detail["run"]["state"] == "cancelled"
    assert "offered" not in [event["kind"] for event in detail["events"]]
    # The place that they left is free: a later Run goes through, and neither of them has started again.
    (server.folder / "go").touch()
    assert server.until(server.admit("t"))["run"]["state"] == "succeeded"
    assert not server.lines(waiting)
    assert [line.word for line in server.lines(running)] == ["start"]


def test_case_46_missed_ticks_of_a_crash_follow_their_policy(serve: Callable[..., Server]) -> None:
    """A few seconds down: all(50) makes every tick up, skip and latest one; each tick is answered once (I6, I9)."""
    tasks: dict[str, Any] = {
        name: {"run": "true", **every("1s"), "overlap": "allow", "missed": missed}
        for name, missed in (("skip", "skip"), ("latest", "latest"), ("all", {"all": 50}))
    }
    server = serve(jobs(**tasks)).start()
    wait_until(lambda: server.runs(task="all"), "the first tick")
    server.crash()
    back = time.time() + 4
    wait_until(lambda: time.time() >= back, "some ticks are missed")
    server.start()
    for name in tasks:
        wait_until(lambda name=name: _answered(server, name)[-1] >= back * 1000 + 1_000, "ticks fire again")
        ticks = _answered(server, name)
        assert len(ticks) == len(set(ticks)), "each tick is answered once"
        assert ticks == list(range(ticks[0], ticks[-1] + 1_000, 1_000)), "no tick is left without an answer"
    assert not server.skips("all")
    assert server.skips("latest").keys() == {"missed"}
    assert server.skips("latest")["missed"] >= 2
    assert server.skips("skip")["missed"] >= 2


def _answered(server: Server, task: str) -> list[int]:
    """Every tick that made a Run or was skipped."""
    ticks = [run["scheduled_ms"] for run in server.runs(task=task)]
    for skip in server.task(task).get("skipped", []):
        ticks += range(skip["at_ms"], skip["last_ms"] + 1, 1_000)
    return sorted(ticks)


def test_case_50_boot_jobs_run_once_per_boot_and_not_per_restart(serve: Callable[..., Server]) -> None:
    """Ten boot jobs, S restarted twice."""
    names = [f"boot-{number}" for number in range(10)]
    task = {"run": diary(), "triggers": [{"id": "boot", "boot": True}]}
    server = serve(jobs(**dict.fromkeys(names, task))).start()
    wait_until(lambda: len(server.lines(word="end")) == 10, "ten boot jobs have run")
    server.restart()
    server.stop()
    server.start()
    # One more, by hand, is behind anything that the restarts might have admitted.
    assert server.until(server.admit("boot-0"))["run"]["state"] == "succeeded"
    causes = Counter((run["task"], run["cause"]) for run in server.runs())
    assert causes == {**{(name, "boot"): 1 for name in names}, ("boot-0", "manual"): 1}
    assert len(server.lines(word="start")) == 11


def test_i3_a_keeper_killed_alone_leaves_the_run_running(serve: Callable[..., Server]) -> None:
    """The command still runs, so the Run does; its end without a receipt is ``not_running``, and only then, and only
    where that was declared safe, another Attempt follows.
    """
    again = {"max_attempts": 3, "when": ["failed", "lost"], "backoff": {"initial": "1s"}}
    unsafe = {"run": UNTIL_GO, "retry": {"max_attempts": 3}}
    safe = {"run": UNTIL_GO, "safety": "deduplicated", "retry": again, "overlap": "skip"}
    server = serve(jobs(unsafe=unsafe, safe=safe)).start()
    runs = {name: server.admit(name) for name in ("unsafe", "safe")}
    processes = {name: server.said("start", run).pid for name, run in runs.items()}
    for run in runs.values():
        kill(server.keeper(run))
    # Also the next server finds them running, by what their processes carry.
    server.restart()
    assert {server.state(run) for run in runs.values()} == {"running"}
    assert all(map(alive, processes.values()))
    assert server.ql("run", "safe").code == 4
    (server.folder / "go").touch()
    detail = server.until(runs["unsafe"])
    assert (detail["run"]["state"], detail["run"]["reason"]) == ("failed", "lost_retry_disabled")
    lost = next(event for event in detail["events"] if event["kind"] == "lost")
    assert lost["data"]["reason"] == "not_running"
    assert lost["data"]["proof"] == "tree_gone"
    assert [line.word for line in server.lines(runs["unsafe"])] == ["start", "end"]
    assert server.until(runs["safe"])["run"]["state"] == "succeeded"
    told = [(line.attempt, line.word) for line in server.lines(runs["safe"])]
    assert told == [(1, "start"), (1, "end"), (2, "start"), (2, "end")]


def test_i3_a_job_killed_with_its_server_runs_again_only_where_that_is_declared_safe(
    serve: Callable[..., Server],
) -> None:
    """Server, keeper and command are killed -9 together: lost; then by the policy stored at admission."""
    body = diary("[ $QL_ATTEMPT = 2 ] || sleep 300")
    again = {"max_attempts": 3, "when": ["failed", "lost"], "backoff": {"initial": "1s"}}
    tasks: dict[str, Any] = {
        "plain": body,
        "failed-only": {"run": body, "retry": {"max_attempts": 3}},
        "safe": {"run": body, "safety": "idempotent", "retry": again},
    }
    server = serve(jobs(**tasks)).start()
    runs = {name: server.admit(name) for name in tasks}
    for run in runs.values():
        server.said("start", run)
    server.crash()
    for pid in server.carriers():
        kill(pid)
    server.start()
    for name in ("plain", "failed-only"):
        detail = server.until(runs[name])
        assert (detail["run"]["state"], detail["run"]["reason"]) == ("failed", "lost_retry_disabled")
        assert len(server.lines(runs[name], "start")) == 1
    detail = server.until(runs["safe"])
    assert detail["run"]["state"] == "succeeded"
    assert [attempt["status"] for attempt in detail["attempts"]] == ["lost", "succeeded"]
    assert [line.attempt for line in server.lines(runs["safe"], "start")] == [1, 2]
    story = server.ql("explain", runs["safe"]).out
    assert "lost" in story


def test_a_key_admits_one_run_also_over_a_restart(serve: Callable[..., Server]) -> None:
    """``--key`` again gives the Run that it made; for another request it is refused."""
    server = serve(jobs(t=diary(), other="true")).start()
    first = server.json("run", "t", "--key", "night")["run_id"]
    server.restart()
    again = server.ql("run", "t", "--key", "night", "--follow")
    assert again.code == 0, again
    assert server.json("run", "t", "--key", "night")["run_id"] == first
    refused = server.ql("run", "other", "--key", "night")
    assert refused.code == 4
    assert len(server.lines(word="start")) == 1
    assert [run["run_id"] for run in server.runs()] == [first]


def test_i9_a_fault_of_ours_ends_the_server_loudly_and_spares_the_jobs(serve: Callable[..., Server]) -> None:
    """A server whose worker has died does not look healthy for ever: it ends with an error, the next one goes on."""
    server = serve(jobs(t=UNTIL_GO, u=diary())).start()
    run = server.admit("t")
    pid = server.said("start", run).pid
    damage = connect(server.data / "ledger.db")
    try:
        damage.execute("ALTER TABLE queue RENAME TO spoilt")
        (server.folder / "go").touch()
        assert server.ended() == 1
        assert "spoilt" in server.err or "queue" in server.err
        assert server.ql("runs").code == 5
        damage.execute("ALTER TABLE spoilt RENAME TO queue")
    finally:
        damage.close()
    server.start()
    assert server.until(run)["run"]["state"] == "succeeded"
    assert [(line.word, line.pid) for line in server.lines(run)] == [("start", pid), ("end", pid)]
    assert server.until(server.admit("u"))["run"]["state"] == "succeeded"


def test_i1_a_crash_of_the_very_first_start_leaves_a_folder_that_the_next_one_can_use(
    serve: Callable[..., Server],
) -> None:
    """Kill -9 while files, schema and token are made for the first time, at ever later moments."""
    server = serve(jobs(t=diary()))
    for moment in range(12):
        server.launch()
        time.sleep(moment * 0.03)  # the point of the crash itself, not a wait for something
        server.crash()
    server.start()
    assert server.until(server.admit("t"))["run"]["state"] == "succeeded"


def test_two_first_starts_at_once_make_one_server(serve: Callable[..., Server]) -> None:
    """One is refused with exit 5, whichever it is; the other one works."""
    rivals = [serve(jobs(t=diary())), serve(jobs(t=diary()))]
    rivals[1].data = rivals[0].data
    for rival in rivals:
        rival.launch()
    loser = wait_until(lambda: [rival for rival in rivals if not rival.running], "one of them gives way")[0]
    assert loser.ended() == 5
    assert "another ql uses" in loser.err
    winner = next(rival for rival in rivals if rival is not loser).became_ready()
    assert winner.until(winner.admit("t"))["run"]["state"] == "succeeded"


def test_i1_one_key_from_many_at_once_makes_one_run(serve: Callable[..., Server]) -> None:
    """Ten clients with the same key are all told the same Run."""
    server = serve(jobs(t={"run": diary(), "overlap": "allow"})).start()
    with ThreadPoolExecutor(10) as pool:
        runs = set(pool.map(lambda _: server.admit("t", key="same"), range(10)))
    assert len(runs) == 1
    server.until(runs.pop())
    assert len(server.runs()) == len(server.lines(word="start")) == 1


def test_case_48_a_frozen_server_fires_the_tick_late_and_says_how_late(serve: Callable[..., Server]) -> None:
    """The process is stopped over a tick: the tick fires once afterwards, labelled."""
    server = serve(jobs(t={"run": diary(), **every("6s")})).start()
    tick = server.task("t")["task"]["next_ms"]
    wait_until(lambda: time.time() * 1000 >= tick - 200, "just before the tick")
    server.send(signal.SIGSTOP)
    wait_until(lambda: time.time() * 1000 >= tick + 2_500, "it is long past the tick")
    server.send(signal.SIGCONT)
    run = wait_until(lambda: server.runs(task="t"), "the tick fires")[-1]
    assert run["scheduled_ms"] == tick
    detail = server.until(run["run_id"])
    assert detail["run"]["state"] == "succeeded"
    late = detail["events"][0]["data"]["late_ms"]
    assert 2_400 <= late <= 6_000
    assert "late" in detail["events"][0]["text"]
    assert not server.skips("t")
