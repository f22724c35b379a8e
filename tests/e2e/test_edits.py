"""The job file is followed: what an edit changes, what it leaves alone, and a broken one."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable

from support.server import Server, diary, every, jobs, wait_until

UNTIL_GO = diary("until [ -e go ]; do sleep 0.05; done")


def test_edits_are_followed_and_a_broken_one_keeps_the_last_good_version(
    serve: Callable[..., Server],
) -> None:
    """Add, change, break, repair: each is said, a mistake with its place; a Run keeps its revision."""
    server = serve(jobs(t="echo one")).start()
    assert server.ql("run", "t", "--follow").out == "one\n"
    server.edit(jobs(t="echo two", more="echo more"))
    said = server.says("changed: t")
    assert "new: more" in said
    assert server.ql("run", "t", "--follow").out == "two\n"
    assert server.ql("run", "more", "--follow").out == "more\n"

    server.edit("version: 1\ntasks:\n  t:\n    run: echo three\n    colour: red\n")
    said = server.says("is broken; the last good version stays in force")
    assert f"{server.file}:5" in wait_until(lambda: server.out if "colour" in server.out else "", "its place")
    assert server.ql("run", "t", "--follow").out == "two\n"
    assert server.ql("run", "more", "--follow").code == 0

    server.file.unlink()
    wait_until(lambda: server.out.count("is broken; the last good") == 2, "a missing file is an edit too")
    assert server.ql("run", "t", "--follow").out == "two\n"

    server.edit(jobs(t="echo three"))
    server.says("removed: more")
    assert server.ql("run", "t", "--follow").out == "three\n"
    assert server.ql("run", "more").code == 3
    assert [run["revision"] for run in server.runs(task="t")] == [3, 2, 2, 2, 1]
    # What the removed task did stays readable.
    assert server.ql("logs", server.runs(task="more")[0]["run_id"]).out == "more\n"


def test_a_server_does_not_start_with_a_broken_file_and_names_every_mistake(
    serve: Callable[..., Server],
) -> None:
    """Exit 2, each mistake with its line; nothing was opened for others."""
    server = serve("version: 1\ntasks:\n  t:\n    run: echo\n    colour: red\n    timeout: 5\n")
    refused = server.up_refused()
    assert refused.code == 2
    assert f"{server.file}:5" in refused.err
    assert f"{server.file}:6" in refused.err
    assert "Traceback" not in refused.err
    assert server.ql("runs").code == 5


def test_case_27_a_slow_task_keeps_one_waiting_and_its_removal_purges_the_queue(
    serve: Callable[..., Server],
) -> None:
    """Due each second, queue(1): 1 running + 1 waiting, the rest skipped with a reason; then T is removed."""
    server = serve(jobs(t={"run": UNTIL_GO, **every("1s"), "overlap": {"queue": 1}}, other="true")).start()
    running = server.said("start").run
    wait_until(lambda: server.skips("t").get("queue_full", 0) >= 2, "ticks are skipped")
    assert server.skips("t").keys() == {"queue_full"}
    found = {run["state"]: run["run_id"] for run in server.runs(task="t")}
    assert found.keys() == {"running", "created"}
    assert found["running"] == running
    server.edit(jobs(other="true"))
    server.says("removed: t")
    purged = server.until(found["created"])
    assert purged["run"]["state"] == "cancelled"
    assert "removed" in purged["run"]["reason"]
    assert server.state(running) == "running"
    (server.folder / "go").touch()
    assert server.until(running)["run"]["state"] == "succeeded"
    assert [(line.word, line.run) for line in server.lines()] == [("start", running), ("end", running)]
    assert len(server.runs(task="t")) == 2


def test_case_43_a_schedule_moved_into_the_past_does_not_fire_back(serve: Callable[..., Server]) -> None:
    """Change a daily schedule from in a while to a while ago: its next fire is tomorrow's."""
    now = dt.datetime.now(dt.UTC)
    soon, before = now + dt.timedelta(minutes=20), now - dt.timedelta(minutes=20)
    server = serve(jobs(t={"run": diary(), **_daily(soon)})).start()
    assert server.task("t")["task"]["next_ms"] == _next(soon)
    server.edit(jobs(t={"run": diary(), **_daily(before)}))
    server.says("changed: t")
    assert server.task("t")["task"]["next_ms"] == _next(before)
    # A later Run by hand proves that the cycle went round; nothing else was admitted.
    assert server.until(server.admit("t"))["run"]["state"] == "succeeded"
    assert [run["cause"] for run in server.runs()] == ["manual"]
    assert not server.skips("t")


def _daily(moment: dt.datetime) -> dict:
    cron = f"{moment.minute} {moment.hour} * * *"
    return {"triggers": [{"id": "daily", "cron": cron, "timezone": "UTC"}]}


def _next(moment: dt.datetime) -> int:
    """The next moment with this hour and minute, in UTC ms."""
    fire = moment.replace(second=0, microsecond=0)
    while fire <= dt.datetime.now(dt.UTC):
        fire += dt.timedelta(days=1)
    return int(fire.timestamp() * 1000)


def test_case_49_every_tick_makes_a_run_or_leaves_a_row_with_a_reason(serve: Callable[..., Server]) -> None:
    """Runs plus skipped ticks are all ticks; the list of tasks counts the skipped ones."""
    server = serve(jobs(t={"run": "sleep 1.5", **every("1s"), "overlap": "skip"})).start()
    wait_until(lambda: server.skips("t").get("overlap", 0) >= 2, "two skipped ticks")
    task = server.task("t")
    ticks = [run["scheduled_ms"] for run in task["runs"]]
    ticks += [skip["at_ms"] for skip in task["skipped"] for _ in range(skip["count"])]
    assert sorted(ticks) == list(range(min(ticks), max(ticks) + 1_000, 1_000))
    assert {skip["reason"] for skip in task["skipped"]} == {"overlap"}
    assert next(iter(server.json("tasks")["tasks"]))["skipped"] >= 2


def test_i3_a_removed_task_that_comes_back_finds_its_old_run(serve: Callable[..., Server]) -> None:
    """Removing and adding a task is no way around its overlap: the running Run still occupies its place."""
    server = serve(jobs(t=UNTIL_GO)).start()
    run = server.admit("t")
    server.said("start", run)
    server.edit(jobs(other="true"))
    server.says("removed: t")
    assert server.ql("run", "t").code == 3
    server.edit(jobs(t=UNTIL_GO))
    wait_until(lambda: [task["name"] for task in server.get("/tasks")["tasks"]] == ["t"], "it is back")
    refused = server.ql("run", "t")
    assert refused.code == 4
    assert run in refused.err
    (server.folder / "go").touch()
    assert server.until(run)["run"]["state"] == "succeeded"
    assert server.ql("run", "t", "--follow").code == 0


def test_a_wider_group_lets_waiting_runs_go_on(serve: Callable[..., Server]) -> None:
    """The new capacity holds at once, for Runs that were admitted under the old one too."""
    tasks = {name: {"run": UNTIL_GO, "concurrency": "db"} for name in ("a", "b", "c")}
    server = serve(jobs(groups={"db": 1}, **tasks)).start()
    runs = [server.admit(name) for name in tasks]
    server.said("start", runs[0])
    server.edit(jobs(groups={"db": 2}, **tasks))
    server.said("start", runs[1])
    assert server.state(runs[2]) == "created"
    (server.folder / "go").touch()
    assert {server.until(run)["run"]["state"] for run in runs} == {"succeeded"}


def test_i6_a_moment_named_once_fires_once_over_crashes(serve: Callable[..., Server]) -> None:
    """``at`` passes while nobody serves: one Run, told as late, and none after another restart."""
    moment = dt.datetime.now(dt.UTC).replace(microsecond=0) + dt.timedelta(seconds=3)
    trigger = {"triggers": [{"id": "once", "at": moment.isoformat()}]}
    server = serve(jobs(t={"run": diary(), **trigger})).start()
    server.crash()
    wait_until(lambda: dt.datetime.now(dt.UTC) > moment + dt.timedelta(seconds=1.2), "it has passed")
    server.start()
    run = server.said("end").run
    assert server.detail(run)["events"][0]["data"]["late_ms"] >= 1_000
    server.restart()
    assert server.until(server.admit("t"))["run"]["state"] == "succeeded"
    assert [found["cause"] for found in server.runs()] == ["manual", "at"]
