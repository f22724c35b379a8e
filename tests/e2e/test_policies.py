"""Overlap, concurrency groups, retries, deadlines: as a user sees them."""

from __future__ import annotations

from collections.abc import Callable

from support.server import Server, diary, jobs, wait_until

UNTIL_GO = diary("until [ -e go ]; do sleep 0.05; done")


def test_a_failed_attempt_is_retried_after_its_backoff_until_it_works_or_is_used_up(
    serve: Callable[..., Server],
) -> None:
    """The pause is kept, each Attempt has its log, and ``failed`` names the exhausted policy."""
    retry = {"retry": {"max_attempts": 2, "backoff": {"initial": "1s"}}}
    server = serve(
        jobs(
            works={"run": diary("echo try $QL_ATTEMPT; [ $QL_ATTEMPT = 2 ]"), **retry},
            never={"run": diary("exit 7"), **retry},
        )
    ).start()
    works, never = server.admit("works"), server.admit("never")
    detail = server.until(works)
    assert detail["run"]["state"] == "succeeded"
    assert [attempt["status"] for attempt in detail["attempts"]] == ["failed", "succeeded"]
    first, second = server.lines(works, "start")
    assert (first.attempt, second.attempt) == (1, 2)
    assert second.at_ms - first.at_ms >= 1_000
    assert server.ql("logs", works, "--attempt", "1").out == "try 1\n"
    assert server.ql("logs", works).out == "try 2\n"
    detail = server.until(never)
    assert (detail["run"]["state"], detail["run"]["exit_code"]) == ("failed", 7)
    assert len(server.lines(never, "start")) == 2


def test_overlap_queue_and_group_hold_runs_and_say_why(serve: Callable[..., Server]) -> None:
    """A held Run names what holds it; places are passed on oldest first, and never two at once."""
    body = diary("until [ -e go ]; do sleep 0.05; done; sleep 0.2")
    server = serve(
        jobs(
            groups={"db": 1},
            queued={"run": body, "overlap": {"queue": 2}},
            one={"run": body, "concurrency": "db"},
            two={"run": body, "concurrency": "db"},
            skips={"run": UNTIL_GO},
        )
    ).start()
    queue = [server.admit("queued") for _ in range(3)]
    full = server.ql("run", "queued")
    assert full.code == 4
    assert "2 wait already" in full.err
    group = [server.admit("one"), server.admit("two")]
    server.admit("skips")
    for first in (queue[0], group[0]):
        server.said("start", first)
    assert server.ql("run", "skips").code == 4
    held = server.detail(queue[1])["run"]
    assert (held["state"], held["held_by"]) == ("created", "overlap")
    assert queue[0][-8:] in server.ql("explain", queue[1]).out
    held = server.detail(group[1])["run"]
    assert (held["state"], held["held_by"]) == ("created", "concurrency")
    assert "db" in server.ql("explain", group[1]).out
    (server.folder / "go").touch()
    for runs in (queue, group):
        assert {server.until(run)["run"]["state"] for run in runs} == {"succeeded"}
        told = [(line.word, line.run) for line in server.lines() if line.run in runs]
        assert told == [(word, run) for run in runs for word in ("start", "end")]


def test_replace_starts_the_new_run_after_the_old_one_is_gone(serve: Callable[..., Server]) -> None:
    """The old one is cancelled with its grace; both never run together (I3)."""
    body = ". ./say.sh\ntrap 'sleep 0.3; say stopped; exit 0' TERM; say start; while :; do sleep 0.05; done"
    server = serve(jobs(t={"run": body, "overlap": "replace"})).start()
    first = server.admit("t")
    server.said("start", first)
    second = server.admit("t")
    assert server.until(first)["run"]["state"] == "cancelled"
    server.said("start", second)
    assert [(line.word, line.run) for line in server.lines()] == [
        ("start", first),
        ("stopped", first),
        ("start", second),
    ]


def test_deadline_ends_a_run_with_its_retries_and_start_within_one_that_never_began(
    serve: Callable[..., Server],
) -> None:
    """Both are ``timed_out``; the reason says which limit."""
    retry = {"retry": {"max_attempts": 50, "backoff": {"initial": "1s", "factor": 1}}}
    server = serve(
        jobs(
            busy=UNTIL_GO,
            retrying={"run": diary("exit 1"), "deadline": "4s", **retry},
            running={"run": diary("sleep 300"), "deadline": "1500ms", "stop": {"grace": "1s"}},
            waiting={"run": diary(), "start_within": "1s"},
        ),
        "--slots",
        "3",
    ).start()
    busy = server.admit("busy")
    retrying, running = server.admit("retrying"), server.admit("running")
    for run in (busy, running):
        server.said("start", run)
    server.said("start", retrying)
    ended = {name: server.until(run)["run"] for name, run in (("retrying", retrying), ("running", running))}
    assert {run["state"] for run in ended.values()} == {"timed_out"}
    assert all("deadline" in run["reason"] for run in ended.values())
    assert 2 <= len(server.lines(retrying, "start")) <= 5
    assert server.carriers(running) == {}
    # Every slot is taken again before the Run with start_within is admitted.
    server.edit(
        jobs(busy={"run": UNTIL_GO, "overlap": "allow"}, waiting={"run": diary(), "start_within": "1s"})
    )
    server.says("changed: busy")
    more = [server.admit("busy"), server.admit("busy")]
    for run in more:
        server.said("start", run)
    waiting = server.until(server.admit("waiting"))["run"]
    assert (waiting["state"], waiting["reason"]) == ("timed_out", "start_within")
    (server.folder / "go").touch()
    for run in (busy, *more):
        assert server.until(run)["run"]["state"] == "succeeded"
    assert not server.lines(waiting["run_id"])
    wait_until(lambda: server.ready()[0] == 200, "ready")
