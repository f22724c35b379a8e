"""The commands that need no server, what ``ql up`` hands on, and what help costs."""

from __future__ import annotations

import json
import subprocess
import sys
from types import SimpleNamespace

import click
import pytest

from cli_support import TIMEOUT_S, Cli, zone
from qinglong.cli.main import COMMANDS, root
from qinglong.profiles.options import UpOptions

HEAVY = (
    "rich",
    "starlette",
    "uvicorn",
    "apsw",
    "yaml",
    "urllib3",
    "cronsim",
    "asyncio",
    "msgspec",
    "prometheus_client",
)
GOOD = """
version: 1
tasks:
  backup: {run: "true", schedule: "0 3 * * *"}
  ping: {run: "true", triggers: [{id: p, every: 15m}]}
  hand: {run: "true"}
"""


@pytest.fixture
def ql(tmp_path, capsysbinary, monkeypatch):
    monkeypatch.setenv("QL_DATA", str(tmp_path / "data"))
    with zone(monkeypatch, "Europe/Berlin"):
        yield Cli(capsysbinary, tmp_path / "data")


@pytest.fixture
def good(tmp_path):
    path = tmp_path / "good.yaml"
    path.write_text(GOOD)
    return path


@pytest.mark.parametrize("arguments", [["--help"], ["-h"], []])
def test_help_imports_nothing_heavy(arguments):
    """The budget of 200 ms on a slow machine, in the terms that hold on every machine: what is imported."""
    code = (
        "import sys\nfrom qinglong.cli.main import main\n"
        f"main({arguments!r})\n"
        f"print(sorted({HEAVY!r} & sys.modules.keys()), len(sys.modules), file=sys.stderr)"
    ).replace(repr(HEAVY), f"set({HEAVY!r})")
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=TIMEOUT_S, check=True
    )
    assert "Commands:" in done.stdout + done.stderr
    heavy, _, count = done.stderr.strip().splitlines()[-1].rpartition(" ")
    assert heavy == "[]"
    assert int(count) < 250


def test_every_command_of_the_table_exists_and_explains_itself(ql):
    context = click.Context(root)
    for name, (_, summary) in COMMANDS.items():
        command = root.get_command(context, name)
        assert command is not None
        assert command.name == name
        assert (command.short_help or command.help) == summary
        ended = ql(name, "--help")
        assert ended.code == 0
        assert ended.out.startswith(f"Usage: ql {name} ")


def test_rich_is_imported_for_a_terminal_only(ql, good):
    code = (
        "import sys\nfrom qinglong.cli.main import main\nmain(sys.argv[1:])\nassert 'rich' not in sys.modules"
    )
    words = [sys.executable, "-c", code, "check", str(good)]
    subprocess.run(words, stdout=subprocess.DEVNULL, timeout=TIMEOUT_S, check=True)


class Server:
    """Stands in for the profile."""

    def __init__(self, monkeypatch):
        self.options: UpOptions | None = None
        module = SimpleNamespace(main=self.main)
        monkeypatch.setitem(sys.modules, "qinglong.profiles.standalone", module)
        import qinglong.profiles

        monkeypatch.setattr(qinglong.profiles, "standalone", module, raising=False)

    def main(self, options):
        self.options = options
        return 0


def test_up_hands_its_options_to_the_profile(ql, good, tmp_path, monkeypatch):
    server = Server(monkeypatch)
    assert ql("up", good).code == 0
    assert server.options == UpOptions(
        files=(good,),
        data=tmp_path / "data",
        profile="standalone",
        slots=None,
        drain_ms=10_000,
        host="127.0.0.1",
        port=5800,
        json_logs=False,
        color=False,
    )
    sizes = ["--profile", "edge", "--slots", "2", "--drain", "1m30s"]
    words = ["--data", "D", *sizes, "--port", "0", "--host", "::1", "--output", "json"]
    monkeypatch.chdir(tmp_path)
    assert ql("up", good, good, *words).code == 0
    assert server.options == UpOptions((good, good), tmp_path / "D", "edge", 2, 90_000, "::1", 0, True, False)


def test_up_ends_with_the_profile_s_code(ql, good, monkeypatch):
    server = Server(monkeypatch)
    monkeypatch.setattr(server, "main", lambda _: 2)
    sys.modules["qinglong.profiles.standalone"].main = server.main
    assert ql("up", good).code == 2


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["missing.yaml"],
        ["/"],
        ["FILE", "--drain", "5"],
        ["FILE", "--drain", "2d"],
        ["FILE", "--slots", "0"],
        ["FILE", "--port", "65536"],
        ["FILE", "--profile", "cluster"],
    ],
)
def test_up_refuses_what_it_cannot_mean(ql, good, monkeypatch, arguments):
    server = Server(monkeypatch)
    ended = ql("up", *(str(good) if word == "FILE" else word for word in arguments))
    assert ended.code == 2
    assert "\nremedy: " in ended.err
    assert server.options is None
    if not arguments:
        assert ended.err == "error: no job file is named\nremedy: ql up FILE, with one or more job files\n"


def test_check_prints_every_problem_with_its_place_and_remedy(ql, tmp_path):
    bad = tmp_path / "bad.yaml"
    bad.write_text(
        'version: 1\ntasks:\n  a: {run: "true", schedul: "0 3 * * *"}\n  b: {run: 7, timeout: 5}\n'
    )
    ended = ql("check", bad)
    assert ended.code == 2
    lines = ended.out.splitlines()
    assert lines[0].startswith(f"{bad}:3:20: tasks.a.schedul: ")
    assert lines[1].startswith("    remedy: ")
    assert any(line.startswith(f"{bad}:4:") and ": tasks.b.timeout: " in line for line in lines)
    assert ended.err.startswith("error: ")
    assert ended.err.endswith(" in 1 file\n")
    found = json.loads(ql("check", bad, "--output", "json").out)
    assert found["ok"] is False
    assert {"path", "line", "column", "field", "code", "message", "remedy"} <= found["problems"][0].keys()


def test_check_of_a_missing_file_is_a_problem_too(ql, tmp_path):
    ended = ql("check", tmp_path / "none.yaml")
    assert (ended.code, "there is no such file" in ended.out) == (2, True)


def test_check_summarises_tasks_with_words_and_next_fire(ql, good):
    ended = ql("check", good)
    assert ended.code == 0
    assert ended.err == "ok: 3 tasks in project default\n"
    _, backup, ping, hand = ended.out.splitlines()
    assert backup.startswith("backup  20")
    assert "T03:00:00+0" in backup
    assert backup.endswith("  At 03:00 every day (Europe/Berlin)")
    assert ping.endswith("  every 15m")
    assert hand.split() == ["hand", "-", "by", "hand", "only"]
    found = json.loads(ql("check", good, "--output", "json").out)
    assert (found["ok"], [task["name"] for task in found["tasks"]]) == (True, ["backup", "ping", "hand"])
    assert found["tasks"][0]["triggers"][0]["next_ms"] == found["tasks"][0]["next_ms"]


def test_cron_preview_shows_words_offsets_and_utc(ql):
    """Case 35: across a change of clocks both offsets are there, never an error."""
    ended = ql(
        "cron", "preview", "*/30 * * * *", "--tz", "America/New_York", "--count", "500", "--output", "json"
    )
    found = json.loads(ended.out)
    assert (ended.code, found["words"], len(found["fires"])) == (0, "Every 30th minute of every hour", 500)
    table = ql("cron", "preview", "0 3 * * *", "--tz", "UTC", "--count", "2").out.splitlines()
    assert table[0] == "At 03:00 every day (UTC)"
    assert table[1].split() == ["LOCAL", "UTC"]
    local, utc = table[2].split()
    assert local.replace("+00:00", "Z") == utc


def test_cron_preview_takes_the_machine_s_zone(ql):
    assert "(Europe/Berlin)" in ql("cron", "preview", "@daily").out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["0 0 31 2 *"], "never fires"),
        (["0 0 * *"], "remedy: "),
        (["@daily", "--tz", "Foo/Bar"], "no time zone 'Foo/Bar'"),
        (["@daily", "--count", "501"], "--count"),
    ],
)
def test_cron_preview_refuses_with_words(ql, arguments, words):
    ended = ql("cron", "preview", *arguments)
    assert ended.code == 2
    assert words in ended.err
