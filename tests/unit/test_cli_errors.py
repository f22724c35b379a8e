"""How commands fail: exit codes, words, JSON, and never a wrong guess about what happened (I12)."""

from __future__ import annotations

import json
import signal
import socket
import threading

import msgspec
import pytest

from cli_fake_api import RUN_ID, TOKEN, Answer, ok, problem, run, serving, write_folder
from cli_support import TIMEOUT_S, Cli
from qinglong.cli import main as main_module
from qinglong.errors import Damaged
from qinglong.wire.api import RunList


@pytest.fixture
def api():
    with serving() as made:
        yield made


@pytest.fixture
def ql(api, tmp_path, capsysbinary, monkeypatch):
    monkeypatch.setenv("QL_DATA", str(write_folder(tmp_path / "data", api.url)))
    return Cli(capsysbinary, tmp_path / "data")


@pytest.mark.parametrize("code", [1, 2, 3, 4, 5, 6, 7])
def test_the_server_s_exit_code_is_the_command_s(api, ql, code):
    api.on("GET", "/runs", problem(409, "some_code", code, place="query task", remedy="do that"))
    ended = ql("runs")
    assert ended.code == code
    assert ended.err == "error: it is so\nplace: query task\nremedy: do that\n"
    assert ended.out == ""


def test_with_json_output_an_error_is_one_object_on_stderr(api, ql):
    api.on("GET", "/runs", problem(409, "overlap", 4, remedy="wait"))
    ended = ql("runs", "--output", "json")
    assert ended.out == ""
    assert json.loads(ended.err) == {
        "code": "overlap",
        "message": "it is so",
        "remedy": "wait",
        "exit_code": 4,
    }


def test_fields_of_a_problem_are_shown(api, ql):
    fields = ({"field": "state", "message": "there is no such state"},)
    api.on("GET", "/runs", problem(422, "parameter_invalid", 2, fields=fields))
    assert "\n  state: there is no such state\n" in ql("runs").err


@pytest.mark.parametrize("verb", ["show", "explain", "logs", "cancel"])
def test_an_unknown_run_ends_with_3(api, ql, verb):
    missing = problem(404, "run_unknown", 3, "there is no run nope", remedy="see `ql runs`")
    api.on("GET", "/runs/nope", missing)
    api.on("POST", "/runs/nope/cancel", missing)
    ended = ql(verb, "nope")
    assert (ended.code, ended.err) == (3, "error: there is no run nope\nremedy: see `ql runs`\n")


def test_no_server_ends_with_5_and_says_how_to_start_one(ql, tmp_path):
    empty = tmp_path / "empty"
    for folder in (empty, ql.data / "token" / "x"):
        ended = ql("runs", "--data", folder)
        assert ended.code == 5
        remedy = "start it with `ql up FILE`, or name another folder: --data D or $QL_DATA"
        assert ended.err == f"error: ql is not running on {folder}\nremedy: {remedy}\n"


def closed_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@pytest.mark.parametrize(
    "command", [["runs"], ["run", "backup"], ["cancel", "x"], ["version", "--server", "URL"]]
)
def test_a_server_that_is_gone_ends_with_5_also_for_changes(ql, command):
    """Nothing was sent, so this is no unknown outcome."""
    url = f"http://127.0.0.1:{closed_port()}"
    write_folder(ql.data, url)
    ended = ql(*(url if word == "URL" else word for word in command))
    assert ended.code == 5
    assert "not running" in ended.err or f"no server answers at {url} (" in ended.err
    assert "0x" not in ended.err


@pytest.mark.parametrize("content", ["", "{", "[]", '{"pid": 1}'])
def test_a_damaged_address_file_counts_as_no_server(ql, content):
    (ql.data / "api.json").write_text(content)
    assert ql("runs").code == 5


def test_a_refused_or_missing_token_ends_with_7(api, ql):
    api.on("GET", "/runs", problem(401, "unauthorised", 7, "the token is wrong"))
    assert ql("runs").code == 7
    (ql.data / "token").unlink()
    ended = ql("runs")
    assert (ended.code, "there is no token in" in ended.err) == (7, True)


@pytest.mark.parametrize("token", ["", "two words", "naïve", "a\nb"])
def test_a_token_file_without_a_token_is_refused_and_not_sent(api, ql, token):
    (ql.data / "token").write_text(token)
    assert ql("runs").code == 2
    assert api.asked == []


@pytest.mark.parametrize("url", ["nonsense", "ftp://x", "http://", "http://[", "//x", "http://a b/"])
def test_an_address_that_is_none_ends_with_2(ql, url):
    assert ql("runs", "--server", url).code == 2


def test_a_named_server_gets_the_named_token(api, ql, tmp_path):
    other = tmp_path / "other"
    other.write_text("another-token\n")
    api.on("GET", "/runs", ok(RunList(())))
    assert ql("runs", "--server", api.url, "--token-file", other, "--data", tmp_path / "none").code == 0
    assert ql("--server", f"{api.url}/", "runs").code == 0
    tokens = [asked.headers["authorization"] for asked in api.asked]
    assert tokens == ["Bearer another-token", f"Bearer {TOKEN}"]


def test_a_server_elsewhere_never_sees_this_machine_s_token(ql):
    from qinglong.cli.locate import locate
    from qinglong.cli.settings import Settings

    assert locate(Settings(server="http://127.0.0.1:1", data=ql.data)).token == TOKEN
    assert locate(Settings(server="http://[::1]:1", data=ql.data)).token == TOKEN
    assert locate(Settings(server="https://example.org", data=ql.data)).token == ""


def test_a_redirect_is_not_followed(api, ql):
    api.on("GET", "/runs", Answer(status=302, headers={"Location": f"{api.url}/api/v1/tasks"}))
    assert ql("runs").code == 5
    assert [asked.path for asked in api.asked] == ["/runs"]


@pytest.mark.parametrize(
    "answer", [Answer(b"<html>"), Answer(b"<html>", 404), Answer(b"[1]"), Answer(b"", 502)]
)
def test_what_is_no_ql_server_is_recognised(api, ql, answer):
    api.on("GET", "/runs", answer)
    ended = ql("runs")
    assert ended.code == 5
    assert ended.err.startswith("error: the ")


def test_proxies_of_the_environment_are_not_used(api, ql, monkeypatch):
    monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{closed_port()}")
    api.on("GET", "/runs", ok(RunList(())))
    assert ql("runs").code == 0


@pytest.mark.parametrize("lost", [Answer(drop=True), Answer(b"<html>", 502), Answer(b"garbage")])
def test_a_lost_reply_ends_with_6_and_the_same_key_is_reused(api, ql, lost):
    api.on("POST", "/runs", lost, ok(run("queued")))
    ended = ql("run", "backup", "--allow-overlap")
    assert ended.code == 6
    sent = api.of("POST", "/runs")[0]
    key = sent.headers["idempotency-key"]
    assert f"remedy: repeat with the same key: ql run backup --key {key} --allow-overlap\n" in ended.err
    assert len(api.asked) == 1, "a change is never repeated without being asked to"
    assert ql("run", "backup", "--key", key, "--allow-overlap").code == 0
    again = api.of("POST", "/runs")[1]
    assert again.headers["idempotency-key"] == key
    assert again.body == sent.body


def test_an_outcome_that_the_server_does_not_know_names_the_key_too(api, ql):
    api.on("POST", "/runs", problem(503, "commit_unknown", 6))
    ended = ql("run", "backup", "--key", "mine")
    assert (ended.code, "ql run backup --key mine" in ended.err) == (6, True)


def test_every_start_has_its_own_key(api, ql):
    api.on("POST", "/runs", ok(run("queued")))
    keys = [ql("run", "backup") and api.asked[-1].headers["idempotency-key"] for _ in range(2)]
    assert keys[0] != keys[1]


@pytest.mark.parametrize("key", ["a b", "é", "x\n", "k" * 201])
def test_a_key_that_no_header_can_carry_is_refused(api, ql, key):
    assert ql("run", "backup", "--key", key).code == 2
    assert api.asked == []


def test_a_lost_reply_to_a_cancellation_says_that_asking_again_is_harmless(api, ql):
    api.on("POST", f"/runs/{RUN_ID}/cancel", Answer(drop=True))
    ended = ql("cancel", RUN_ID)
    assert (ended.code, "asking twice is harmless" in ended.err) == (6, True)


def test_ctrl_c_while_a_start_is_on_its_way_is_an_unknown_outcome(api, ql):
    held = threading.Event()
    api.on("POST", "/runs", Answer(hold=held, drop=True))
    with ql.start("run", "backup") as process:
        api.wait_for("POST", "/runs")
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=TIMEOUT_S)
        held.set()
    assert process.returncode == 6
    assert api.asked[0].headers["idempotency-key"] in err.decode()


def test_a_fault_of_ours_is_one_line_and_more_on_request(ql, monkeypatch):
    def broken(*_, **__):
        raise ZeroDivisionError("no")

    monkeypatch.setattr(main_module.root, "main", broken)
    ended = ql("runs")
    assert ended.code == 1
    assert "error: ZeroDivisionError: no" in ended.err
    assert "Traceback" not in ended.err
    assert "QL_DEBUG=1" in ended.err
    monkeypatch.setenv("QL_DEBUG", "1")
    assert "Traceback" in ql("runs").err


def test_an_error_s_text_cannot_drive_the_terminal(ql, monkeypatch):
    def broken(*_, **__):
        raise Damaged("x", "bad \x1b[2J name")

    monkeypatch.setattr(main_module.root, "main", broken)
    assert "\x1b" not in ql("runs").err


@pytest.mark.parametrize(
    "arguments",
    [
        ["nonsense"],
        ["runs", "--nonsense"],
        ["runs", "--limit", "0"],
        ["run"],
        ["show"],
        ["runs", "--state", "odd"],
    ],
)
def test_usage_errors_end_with_2_and_point_to_the_help(ql, arguments):
    ended = ql(*arguments)
    assert ended.code == 2
    assert ended.err.startswith("error: ")
    assert "remedy: see `ql" in ended.err
    as_json = ql(*arguments, "--output=json")
    assert json.loads(as_json.err)["exit_code"] == 2


def test_a_closed_pipe_ends_quietly(api, ql):
    many = RunList(tuple(msgspec.structs.replace(run(), task=f"t{n:04}") for n in range(3000)))
    api.on("GET", "/runs", ok(many))
    with ql.start("runs") as process:
        process.stdout.close()
        process.stdout = None
        _, err = process.communicate(timeout=TIMEOUT_S)
    assert (process.returncode, err) == (141, b"")
