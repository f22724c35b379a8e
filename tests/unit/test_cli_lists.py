"""What commands print: tables for people, the API's own JSON for programs, and nothing that drives a terminal."""

from __future__ import annotations

import json
import os
import pty
import re
import select

import msgspec
import pytest

from cli_fake_api import RUN_ID, T0, detail, event, log, ok, run, serving, write_folder
from cli_support import TIMEOUT_S, Cli, zone
from qinglong.cli import times
from qinglong.cli.terminal import SafeBytes
from qinglong.errors import Invalid
from qinglong.limits import HOUR
from qinglong.wire.api import RunList, TaskInfo, TaskList, TriggerInfo, VersionInfo

SHOW = f"/runs/{RUN_ID}"
EVIL = "x\x1b[2J\x9b31m\x07y"


@pytest.fixture
def api():
    with serving() as made:
        yield made


@pytest.fixture
def ql(api, tmp_path, capsysbinary, monkeypatch):
    monkeypatch.setenv("QL_DATA", str(write_folder(tmp_path / "data", api.url)))
    with zone(monkeypatch, "UTC"):
        yield Cli(capsysbinary, tmp_path / "data")


RUNS = RunList(
    (
        run("running", unreachable_ms=T0 + 1),
        run("created", held_by="overlap"),
        run("retry_wait", available_ms=T0 + 9_000),
        run("failed", finished_ms=T0 + 61_000, reason="exit code 3", exit_code=3),
        run("running", cancelling=True),
    ),
    next=RUN_ID,
)
TASKS = TaskList(
    (
        TaskInfo(
            "backup",
            "default",
            "files",
            3,
            "pg_dump",
            (TriggerInfo("cron", "cron", "At 03:00 every day (UTC)", "0 3 * * *", "UTC", T0),),
            T0,
            run("succeeded"),
            skipped=1_234,
        ),
        TaskInfo("tidy", "default", "files", 1, "rm x"),
    )
)


def columns(text):
    return [re.split(r"\s{2,}", line.rstrip()) for line in text.splitlines()]


def test_runs_are_a_table_with_states_and_the_conditions_beside_them(api, ql):
    api.on("GET", "/runs", ok(RUNS))
    ended = ql("runs")
    header, *rows = columns(ended.out)
    assert header == ["RUN", "TASK", "STATE", "CREATED", "TOOK", "RESULT"]
    assert [row[2] for row in rows] == [
        "running (unreachable)",
        "created (held: overlap)",
        "retry_wait",
        "failed",
        "running (cancelling)",
    ]
    assert rows[3] == ["abcd1234", "backup", "failed", "2025-11-30T18:06:40+00:00", "1m1s", "exit code 3"]
    assert "more runs exist" in ended.err


def test_runs_passes_its_filters_on(api, ql):
    api.on("GET", "/runs", ok(RunList(())))
    ended = ql(
        "runs",
        "--task",
        "b",
        "--state",
        "open",
        "--since",
        "2025-11-30T18:06:40Z",
        "--unreachable",
        "--limit",
        7,
    )
    wanted = {"task": "b", "state": "open", "since_ms": str(T0), "unreachable": "true", "limit": "7"}
    assert api.asked[0].query == {"project": "default", **wanted}
    assert (ended.code, ended.out, ended.err) == (0, "", "no runs\n")


@pytest.mark.parametrize(
    ("arguments", "path", "struct"),
    [
        (["runs"], "/runs", RUNS),
        (["tasks"], "/tasks", TASKS),
        (["show", RUN_ID], SHOW, detail(now=("so",))),
        (["explain", RUN_ID], SHOW, detail(events=(event(1, "admitted", "é"),))),
        (["run", "backup"], "/runs", run("queued")),
    ],
)
def test_json_is_the_api_s_own_document_exactly(api, ql, arguments, path, struct):
    api.on("POST" if arguments[0] == "run" else "GET", path, ok(struct))
    assert ql(*arguments, "--output", "json").raw == msgspec.json.encode(struct) + b"\n"


def test_global_options_stand_before_or_after_and_the_later_wins(api, ql):
    api.on("GET", "/tasks", ok(TASKS))
    before = ql("--output", "json", "--project", "shop", "tasks")
    after = ql("--output", "table", "tasks", "--project", "shop", "--output=json")
    assert before.raw == after.raw == msgspec.json.encode(TASKS) + b"\n"
    assert [asked.query for asked in api.asked] == [{"project": "shop"}] * 2


def test_tasks_say_when_they_run_next_and_what_was_skipped(api, ql):
    api.on("GET", "/tasks", ok(TASKS))
    _, backup, tidy = columns(ql("tasks").out)
    assert backup == ["backup", "2025-11-30T18:06:40+00:00", "succeeded", "1,234", "At 03:00 every day (UTC)"]
    assert tidy == ["tidy", "-", "-", "-", "by hand only"]


def test_a_name_with_odd_letters_is_one_segment_of_the_path(api, ql):
    api.on("GET", "/runs/a/b?c d", ok(detail()))
    assert ql("show", "a/b?c d").code == 0


def test_show_has_the_facts_the_attempts_and_where_it_stands(api, ql):
    api.on(
        "GET", SHOW, ok(detail("failed", "failed", exit_code=3, now=("It has failed.",), finished_ms=T0 + 5))
    )
    out = ql("show", RUN_ID).out
    assert f"run        {RUN_ID}\n" in out
    assert "task       backup (revision 2, project default)\n" in out
    assert "exit code  3\n" in out
    assert columns(out)[-3][:3] == ["1", "failed", "w1"]
    assert out.endswith("\nIt has failed.\n")


def test_explain_tells_every_event_and_what_is_so_now(api, ql):
    events = (event(1, "admitted", "It was due."), event(2, "released", gate="group:default:db"))
    api.on("GET", SHOW, ok(detail(events=events, now=("It is running.", "Its policy: none."))))
    assert ql("explain", RUN_ID).out.splitlines() == [
        f"backup run {RUN_ID}: running",
        "",
        "2025-11-30T18:06:41+00:00  It was due.",
        "2025-11-30T18:06:42+00:00  There is room at concurrency group db: it is queued.",
        "",
        "Now:",
        "  It is running.",
        "  Its policy: none.",
    ]


def test_hostile_texts_cannot_drive_a_terminal(api, ql):
    evil = detail("failed", reason=EVIL, events=(event(1, "admitted", EVIL),), now=(EVIL,))
    api.on("GET", SHOW, ok(evil))
    api.on("GET", "/runs", ok(RunList((msgspec.structs.replace(evil.run, task=EVIL),))))
    for arguments in (["show", RUN_ID], ["explain", RUN_ID], ["runs"]):
        assert re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f]", ql(*arguments).out) is None


def test_version_tells_both_and_needs_no_server(api, ql, tmp_path):
    api.on("GET", "/version", ok(VersionInfo("9.9", "standalone", "3.11", "3.50", 4, "/data")))
    assert (
        ql("version").out.splitlines()[1]
        == "server 9.9 (standalone, Python 3.11, SQLite 3.50, schema 4) on /data"
    )
    both = json.loads(ql("version", "--output", "json").out)
    assert (both["client"]["version"], both["server"]["version"]) == ("0.1.0", "9.9")
    alone = ql("version", "--data", tmp_path / "none")
    assert (alone.code, alone.out.count("\n"), alone.err) == (0, 1, "")


def on_terminal(ql, *arguments, **environment):
    """What a person would see: the command with a terminal as its output."""
    ours, theirs = pty.openpty()
    env = {**os.environ, "TERM": "xterm", "COLUMNS": "100", **environment}
    if "NO_COLOR" not in environment:
        env.pop("NO_COLOR", None)
    try:
        pid = os.posix_spawn(
            ql.python,
            [ql.python, "-c", "import sys; from qinglong.cli.main import main; sys.exit(main())", *arguments],
            env,
            file_actions=[(os.POSIX_SPAWN_DUP2, theirs, 1), (os.POSIX_SPAWN_DUP2, theirs, 2)],
        )
        os.close(theirs)
        seen = b""
        while select.select([ours], [], [], TIMEOUT_S)[0]:
            try:
                data = os.read(ours, 65_536)
            except OSError:
                break
            if not data:
                break
            seen += data
        _, status = os.waitpid(pid, 0)
    finally:
        os.close(ours)
    return os.waitstatus_to_exitcode(status), seen.decode().replace("\r\n", "\n")


def test_on_a_terminal_tables_have_colours_and_human_times(api, ql):
    api.on("GET", "/runs", ok(RUNS))
    code, seen = on_terminal(ql, "runs")
    assert code == 0
    assert "\x1b[31mrunning (unreachable)" in seen
    assert re.search(r"2025-11-30 18:06, \d+d\d*h? ago", seen)
    assert "2025-11-30T" not in seen


@pytest.mark.parametrize(
    ("arguments", "environment"), [(["--no-color"], {}), ([], {"NO_COLOR": "1"}), ([], {"TERM": "dumb"})]
)
def test_colours_can_be_refused(api, ql, arguments, environment):
    api.on("GET", "/runs", ok(RUNS))
    api.on("GET", SHOW, ok(detail("failed", events=(event(1, "admitted", "words " * 40),))))
    for command in (["runs"], ["show", RUN_ID], ["explain", RUN_ID]):
        assert "\x1b" not in on_terminal(ql, *command, *arguments, **environment)[1]


def test_a_live_view_keeps_the_state_below_the_output(api, ql):
    api.on("POST", "/runs", ok(run("queued")))
    api.on("GET", SHOW, ok(detail()))
    api.on("GET", f"{SHOW}/changes", ok(detail("failed", "failed", exit_code=3, reason="exit code 3")))
    api.on(
        "GET",
        f"{SHOW}/log",
        log(b"\x1b[32mgreen\x1b[0m \x1b[2J\x07bell\n", end=False),
        log(b"no newline", 30),
        log(b"", 40),
    )
    code, seen = on_terminal(ql, "run", "backup", "--follow")
    assert code == 3
    assert "run abcd1234 of backup: running" in seen
    erase, state = "\r\x1b[K", "\x1b[2mrun abcd1234 of backup: running\x1b[0m"
    assert f"{erase}\x1b[32mgreen\x1b[0m ^[[2J^Gbell\x1b[0m\n{erase}{state}{erase}no newline\n" in seen
    assert seen.endswith("run abcd1234 of backup: failed (exit code 3)\n")


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1_000])
def test_output_is_made_safe_whatever_the_pieces(size):
    data = "a\x1b[31mred\x1b[0m\tb\r\n\x1b]52;c;evil\x07\x9bé\n".encode() + b"\xff tail"
    safe = SafeBytes(keep_color=True)
    text = "".join(safe.feed(data[at : at + size]) for at in range(0, len(data), size)) + safe.flush()
    plain = text.replace("\x1b[31m", "<r>").replace("\x1b[0m", "<0>")
    assert "\x1b" not in plain
    assert plain.replace("<0>", "") == "a<r>red\tb\r\n^[]52;c;evil^G<9b>é\n\ufffd tail"


def test_a_line_without_end_is_printed_in_pieces():
    safe = SafeBytes(keep_color=False)
    assert len(safe.feed(b"x" * 200_000)) == 200_000


def test_since_takes_durations_and_times():
    assert times.since("2h", T0) == T0 - 2 * HOUR
    assert times.since("2025-11-30T18:06:40Z", 0) == T0
    assert times.since("2025-11-30T19:06:40+01:00", 0) == T0
    for text in ("2", "soon", "2025-13-01", "", "9999999999", "0001-01-01"):
        with pytest.raises(Invalid):
            times.since(text, T0)


def test_moments_are_human():
    noon = 1_764_504_000_000
    assert re.fullmatch(r"\d\d:\d\d:\d\d, 5m ago", times.human(noon - 300_000, noon))
    assert times.human(noon + 3 * 24 * HOUR, noon).endswith(", in 3d")
    assert times.human(None, noon) == ""
    assert times.iso(2**62).startswith("9999")
