"""The environment of a command: base, environment files, our own variables."""

from __future__ import annotations

import sys

import pytest

from qinglong.domain.definitions import Command, TaskSpec
from qinglong.worker.host import AttemptKey, Launch, StartFailed
from qinglong.worker.linux import envfile, environment
from qinglong.worker.linux.account import Account

ME = Account("me", 1000, 1000, "/home/me", "/bin/zsh", switch=False)


def parse(text: str | bytes) -> dict[str, bytes]:
    return envfile.parse("f", text.encode() if isinstance(text, str) else text)


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("A=plain", b"plain"),
        ("A=", b""),
        ("  export A =no", None),
        ("export A=exported", b"exported"),
        ("\t A=  around \t", b"around"),
        ("A=a=b=c", b"a=b=c"),
        ("A=a # not a comment", b"a # not a comment"),
        ("A=$HOME`id`$(id)\\n", b"$HOME`id`$(id)\\n"),
        ("A='single \"kept\" $x \\n'", b'single "kept" $x \\n'),
        ('A="double \\"in\\" it\\n\\t\\r\\\\ \\$x $y"', b'double "in" it\n\t\r\\ $x $y'),
        ("A=''", b""),
        ('A=""', b""),
        ("A=it's", b"it's"),
        ("A=x\r", b"x"),
        ("A=' x '\r", b" x "),
        ("A=é", "é".encode()),
        ("A='open", None),
        ('A="open', None),
        ('A="open\\"', None),
        ("A='x' y", None),
        ("A='x'y", None),
        ("just words", None),
        ("=x", None),
        ("1A=x", None),
        ("A-B=x", None),
        ("É=x", None),
        ("QL_RUN_ID=x", None),
        ("IFS=x", None),
        ("PPID=1", None),
        ("OPTIND=1", None),
    ],
)
def test_lines_of_an_environment_file(line, value):
    if value is None:
        with pytest.raises(StartFailed, match=r"^env_file: f:1: "):
            parse(line)
    else:
        assert parse(line) == {"A": value}


def test_a_whole_environment_file():
    raw = b"\xef\xbb\xbf# head\r\n\r\n  # more\nA=1\nB='2'\nA=3\nC=\xff\xfe"
    assert parse(raw) == {"A": b"3", "B": b"2", "C": b"\xff\xfe"}


def test_a_bad_line_is_named_and_its_text_is_not_shown():
    with pytest.raises(StartFailed) as caught:
        parse("A=1\n\n# x\nhunter2")
    assert caught.value.reason == "env_file: f:4: not of the form NAME=value"


def test_base_takes_only_what_is_documented():
    worker = {
        "LANG": "C",
        "TZ": "",
        "TMPDIR": "/t",
        "SECRET": "x",
        "LC_CTYPE": "x",
        "HOME": "/x",
        "PATH": "/a::/b",
    }
    assert environment.base(ME, worker) == {
        "PATH": b"/a:/b",
        "HOME": b"/home/me",
        "USER": b"me",
        "LOGNAME": b"me",
        "SHELL": b"/bin/zsh",
        "LANG": b"C",
        "TMPDIR": b"/t",
    }


def test_base_gives_another_account_no_temporary_folder_of_the_workers():
    assert "TMPDIR" not in environment.base(ME._replace(switch=True), {"TMPDIR": "/root/tmp"})


def test_path_is_the_workers_without_its_virtual_environment(monkeypatch):
    monkeypatch.setattr(sys, "prefix", "/srv/venv")
    monkeypatch.setattr(sys, "base_prefix", "/usr")
    assert environment.base(ME, {"PATH": "/srv/venv/bin:/usr/bin"})["PATH"] == b"/usr/bin"
    assert environment.base(ME, {})["PATH"] == environment.DEFAULT_PATH.encode()
    assert environment.base(ME, {"PATH": "/srv/venv/bin"})["PATH"] == environment.DEFAULT_PATH.encode()


@pytest.mark.parametrize(
    ("moment", "text"),
    [
        (None, None),
        (0, b"1970-01-01T00:00:00Z"),
        (1_700_000_000_000, b"2023-11-14T22:13:20Z"),
        (1_700_000_000_001, b"2023-11-14T22:13:20.001Z"),
        (4_102_444_800_999, b"2100-01-01T00:00:00.999Z"),
    ],
)
def test_own_variables(moment, text):
    spec = TaskSpec("t", Command("text", text="true"), cwd="/")
    own = environment.own(Launch(AttemptKey("r", "", 2), spec, 9, moment))
    assert own.pop("QL_SCHEDULED_AT", None) == text
    assert own == {"QL_RUN_ID": b"r", "QL_ATTEMPT": b"2", "QL_FENCE": b"9"}


def test_marks_name_the_step_only_where_there_is_one():
    assert environment.marks(AttemptKey("r", "", 1)) == (b"QL_RUN_ID=r", b"QL_ATTEMPT=1")
    assert environment.marks(AttemptKey("r", "é", 1))[-1] == "QL_STEP=é".encode()
