"""Following a run: its exit code, its output byte for byte, and what Ctrl-C does and does not do."""

from __future__ import annotations

import json
import signal
import threading

import msgspec
import pytest

from cli_fake_api import RUN_ID, T0, Answer, detail, log, ok, problem, run, serving, write_folder
from cli_support import TIMEOUT_S, Cli
from qinglong.wire.api import AttemptInfo

SHOW, CHANGES, LOG = (f"/runs/{RUN_ID}{rest}" for rest in ("", "/changes", "/log"))


@pytest.fixture
def api():
    with serving() as made:
        yield made


@pytest.fixture
def ql(api, tmp_path, capsysbinary, monkeypatch):
    monkeypatch.setenv("QL_DATA", str(write_folder(tmp_path / "data", api.url)))
    return Cli(capsysbinary, tmp_path / "data")


def play(api, *details, output=(b"hello\n",)):
    """The Run goes through these states; the first is what ``show`` says."""
    api.on("POST", "/runs", ok(run("queued", version=1)))
    api.on("GET", SHOW, ok(details[0]))
    api.on("GET", CHANGES, *(ok(each) for each in details[1:] or details))
    pieces = [log(data, sum(map(len, output[:index]))) for index, data in enumerate(output)]
    api.on("GET", LOG, *pieces, log(b"", sum(map(len, output))))


ENDS = [
    (detail("succeeded", "succeeded", exit_code=0), 0),
    (detail("failed", "failed", exit_code=3), 3),
    (detail("failed", "failed", exit_code=255), 255),
    (detail("failed", "failed", signal=15), 143),
    (detail("failed", "failed", signal=9, exit_code=1), 137),
    (detail("timed_out", "timed_out", signal=15), 124),
    (detail("cancelled", "cancelled", signal=15), 125),
    (detail("failed", "failed", reason="start_failed: no such user"), 125),
    (detail("failed", "failed", exit_code=0, reason="stopped: shutdown"), 125),
    (detail("failed", "lost", reason="lost_retry_unsafe"), 125),
]


@pytest.mark.parametrize(("end", "code"), ENDS)
def test_follow_ends_with_the_job_s_code(api, ql, end, code):
    play(api, detail(), end)
    assert ql("run", "backup", "--follow").code == code


def test_the_code_of_an_older_attempt_is_not_that_of_a_lost_one(api, ql):
    attempts = (
        AttemptInfo(1, "failed", T0, running_ms=T0, exit_code=3),
        AttemptInfo(2, "lost", T0, running_ms=T0),
    )
    play(api, detail(), detail("failed", attempts=attempts, exit_code=3, reason="lost_retry_unsafe"))
    assert ql("run", "backup", "--follow").code == 125


def test_stdout_is_the_job_s_output_and_nothing_else(api, ql):
    output = (b"one\x00\xff", b"\x1b[2Jtwo")
    play(api, detail("queued", "claimed"), detail(), ENDS[1][0], output=output)
    ended = ql("run", "backup", "-f")
    assert ended.raw == b"one\x00\xff\x1b[2Jtwo"
    assert ended.err.splitlines() == [
        "run abcd1234 of backup: queued",
        "run abcd1234 of backup: running",
        "run abcd1234 of backup: failed",
    ]


def test_long_polls_are_long_while_nothing_can_be_written_and_ask_from_the_known_version(api, ql):
    play(api, detail("queued", "claimed", version=2), detail(version=4), ENDS[0][0])
    ql("run", "backup", "-f")
    waits = [(int(asked.query["after"]), int(asked.query["wait_ms"])) for asked in api.of("GET", CHANGES)]
    assert waits == [(2, 20_000), (4, 500)]


def test_follow_with_json_prints_the_run_as_it_ended(api, ql):
    end = ENDS[1][0]
    play(api, detail(), end)
    api.on("GET", SHOW, ok(detail()), ok(end))
    ended = ql("run", "backup", "--follow", "--output", "json")
    assert ended.code == 3
    assert ended.raw == msgspec.json.encode(end) + b"\n"
    assert api.of("GET", LOG) == []


def test_follow_goes_on_over_retries_and_marks_attempts(api, ql):
    attempts = (
        AttemptInfo(1, "failed", T0, running_ms=T0, exit_code=3),
        AttemptInfo(2, "succeeded", T0, running_ms=T0, exit_code=0),
    )
    play(api, detail(), detail("succeeded", attempts=attempts))
    api.on("GET", LOG, log(b"first\n"), log(b"", 6), log(b"second\n"))
    ended = ql("run", "backup", "--follow")
    assert (ended.code, ended.out) == (0, "first\n[… attempt 2 …]\nsecond\n")
    assert [asked.query["attempt"] for asked in api.of("GET", LOG)] == ["1", "1", "2"]


def test_an_attempt_without_output_is_no_error(api, ql):
    play(api, detail("queued", "claimed"), ENDS[6][0])
    api.on("GET", LOG, problem(404, "log_unknown", 3))
    assert ql("run", "backup", "--follow").code == 125


@pytest.mark.parametrize("trouble", [Answer(drop=True), problem(503, "unavailable", 5)])
def test_follow_outlasts_a_dropped_connection_and_a_busy_server(api, ql, trouble):
    """Also a restart of the server: the run goes on, and so does who watches it."""
    play(api, detail(), ENDS[1][0])
    api.on("GET", CHANGES, trouble, ok(ENDS[1][0]))
    assert ql("run", "backup", "--follow").code == 3


def test_a_run_that_is_already_over_is_told_at_once(api, ql):
    """The same key again: the run that it started may have ended long ago."""
    play(api, ENDS[1][0])
    assert ql("run", "backup", "--follow", "--key", "k").code == 3
    assert api.of("GET", CHANGES) == []


def test_without_follow_the_run_is_named(api, ql):
    api.on("POST", "/runs", ok(run("created", held_by="overlap")))
    ended = ql("run", "backup", "--project", "shop")
    assert (ended.code, ended.out) == (0, "run abcd1234 of backup: created (held: overlap)\n")
    body = json.loads(api.asked[0].body)
    assert body == {"task": "backup", "project": "shop", "allow_overlap": False}


@pytest.mark.parametrize(
    "command", [["run", "backup", "--follow"], ["logs", "-f", RUN_ID], ["cancel", RUN_ID, "--wait"]]
)
def test_ctrl_c_detaches_and_says_so_and_the_run_goes_on(api, ql, command):
    held = threading.Event()
    play(api, detail())
    api.on("POST", f"{SHOW}/cancel", ok(run("running", cancelling=True)))
    api.on("GET", CHANGES, Answer(hold=held, drop=True))
    with ql.start(*command) as process:
        api.wait_for("GET", CHANGES)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=TIMEOUT_S)
        held.set()
    assert process.returncode == 130
    assert b"Traceback" not in err
    words = {"run": "detached; run abcd1234 goes on", "logs": "is not affected", "cancel": "stays asked for"}
    assert words[command[0]] in err.decode()
    if command[0] != "cancel":
        assert out == b"hello\n"
        assert [asked.path for asked in api.asked if asked.method == "POST"] in ([], ["/runs"])


def test_logs_prints_the_bytes_of_the_newest_attempt_and_marks_what_was_cut(api, ql):
    play(api, detail("failed", "failed"))
    api.on("GET", LOG, log(b"head\n", end=False), log(b"tail", 1_239, gap="5-1239"))
    ended = ql("logs", RUN_ID)
    assert (ended.code, ended.out) == (0, "head\n[… 1,234 bytes dropped …]\ntail")
    assert [asked.query["offset"] for asked in api.of("GET", LOG)] == ["0", "5"]


def test_logs_raw_is_bytes_only(api, ql):
    play(api, detail("failed", "failed"))
    api.on("GET", LOG, log(b"he\x00ad", end=False), log(b"tail", 1_239, gap="5-1239"))
    assert ql("logs", RUN_ID, "--raw").raw == b"he\x00adtail"


def test_logs_of_a_running_command_does_not_wait_for_more(api, ql):
    play(api, detail())
    api.on("GET", LOG, log(b"so far", end=False), log(b"", 6, end=False))
    assert ql("logs", RUN_ID).out == "so far"


def test_logs_follow_ends_with_the_run_and_with_0(api, ql):
    play(api, detail(), detail(), ENDS[1][0], output=(b"a\n", b"b\n", b"c\n"))
    ended = ql("logs", "-f", RUN_ID)
    assert (ended.code, ended.out, ended.err) == (0, "a\nb\nc\n", "")


def test_logs_of_one_attempt_follows_that_one_only(api, ql):
    attempts = (AttemptInfo(1, "failed", T0, exit_code=3), AttemptInfo(2, "running", T0, running_ms=T0))
    play(api, detail("running", attempts=attempts))
    assert ql("logs", "-f", RUN_ID, "--attempt", "1").out == "hello\n"
    assert {asked.query["attempt"] for asked in api.of("GET", LOG)} == {"1"}
    ended = ql("logs", RUN_ID, "--attempt", "7")
    assert (ended.code, "has no attempt 7" in ended.err) == (3, True)


def test_a_log_has_no_json_form(ql):
    assert ql("logs", RUN_ID, "--output", "json").code == 2


def test_a_server_that_lies_about_offsets_cannot_hold_the_command(api, ql):
    play(api, detail("failed", "failed"))
    api.on("GET", LOG, Answer(b"x", headers={"QL-Log-Next": "0", "QL-Log-End": "false"}))
    assert ql("logs", RUN_ID).out == "x"


def test_cancel_waits_until_it_is_a_fact(api, ql):
    asked = run("running", cancelling=True)
    play(api, detail(cancelling=True), ENDS[6][0])
    api.on("POST", f"{SHOW}/cancel", ok(asked))
    api.on("GET", SHOW, ok(detail(cancelling=True)), ok(ENDS[6][0]))
    ended = ql("cancel", RUN_ID, "--wait", "--reason", "wrong day")
    assert ended.code == 0
    assert ended.out.splitlines() == [
        "run abcd1234 of backup: asked to stop, still running",
        "run abcd1234 of backup: cancelled",
    ]
    assert json.loads(api.asked[0].body) == {"reason": "wrong day"}


def test_cancel_asks_every_run_and_ends_with_the_first_error(api, ql):
    api.on("POST", "/runs/a/cancel", problem(409, "final", 4, "run a is final"))
    api.on("POST", "/runs/b/cancel", problem(404, "run_unknown", 3, "no run b"))
    api.on("POST", "/runs/c/cancel", ok(run("cancelled")))
    ended = ql("cancel", "a", "b", "c")
    assert (ended.code, ended.out) == (4, "run abcd1234 of backup: cancelled\n")
    assert ended.err == "error: run a is final\nerror: no run b\n"


def test_cancel_prints_one_json_document(api, ql):
    api.on("POST", "/runs/a/cancel", ok(run("cancelled")))
    assert ql("cancel", "a", "--output", "json").raw == msgspec.json.encode(run("cancelled")) + b"\n"
    two = json.loads(ql("cancel", "a", "a", "--output", "json").out)
    assert [each["state"] for each in two] == ["cancelled", "cancelled"]
