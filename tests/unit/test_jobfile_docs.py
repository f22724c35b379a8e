"""What the reference shows and what the examples do is true."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from jobfile_support import good, task
from qinglong.limits import MINUTE
from qinglong.wire.jobfile import load, load_files
from qinglong.wire.jobfile.document import FILE
from qinglong.wire.jobfile.policy import BACKOFF, RETRY
from qinglong.wire.jobfile.surroundings import SHELL_OWNED
from qinglong.wire.jobfile.task import TASK
from qinglong.wire.jobfile.triggers import TRIGGER

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted((ROOT / "examples").glob("*.yaml"))
REFERENCE = (ROOT / "docs" / "job-file.md").read_text()
BLOCKS = re.findall(r"^```(\S+)( errors)?\n(.*?)^```", REFERENCE, re.DOTALL | re.MULTILINE)
ROWS = re.findall(r"^\| (`.+?) \|.*\|$", REFERENCE, re.MULTILINE)
IN_ROWS = re.findall(r"^\| `(\w+)` \|.*\| `(.+?)` \|$", REFERENCE, re.MULTILINE)


@pytest.mark.parametrize("text", [text for kind, errors, text in BLOCKS if kind == "yaml" and not errors])
def test_every_example_of_the_reference_loads(text):
    assert good(text).tasks


def test_the_errors_that_the_reference_shows_are_the_real_ones():
    (wrong,) = [text for kind, errors, text in BLOCKS if kind == "yaml" and errors]
    (shown,) = [text for kind, _, text in BLOCKS if kind == "text"]
    _, problems = load(wrong, path="jobs.yaml", machine_zone="UTC")
    assert "\n".join(str(problem) for problem in problems) == shown.rstrip("\n")


def test_every_field_has_a_row_in_the_reference():
    names = {name for row in ROWS for name in re.findall(r"`(\w+)`", row)}
    assert names >= FILE.keys() | TASK.keys() | (TRIGGER.keys() - {"id"}) | RETRY.keys()
    assert all(f"`{name}`" in REFERENCE for name in [*BACKOFF, "id"])


@pytest.mark.parametrize(("name", "example"), IN_ROWS, ids=[name for name, _ in IN_ROWS])
def test_the_example_in_every_row_is_lawful(name, example):
    if name in TRIGGER.keys() - TASK.keys() - FILE.keys():
        assert task(f"triggers:\n  - id: a\n    {example}").triggers
    elif name in RETRY:
        assert task(
            "retry: {" + ", ".join(({"max_attempts": "max_attempts: 2"} | {name: example}).values()) + "}"
        )
    elif name in TASK:
        assert task(example, "concurrency_groups: {db: 1}\n")
    else:
        assert good("\n".join(({"version": "version: 1", "tasks": "tasks: {}"} | {name: example}).values()))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_every_example_file_loads_and_names_its_schema(path):
    found, problems = load_files([str(path)], machine_zone="UTC")
    assert problems == []
    assert found.tasks
    assert path.read_text().startswith("# yaml-language-server: $schema=../docs/job-file.schema.json\n")


def run(command: str, folder: Path, attempt: int) -> subprocess.CompletedProcess[str]:
    env = {"PATH": os.environ["PATH"], "TMPDIR": str(folder), "QL_RUN_ID": "r1", "QL_ATTEMPT": str(attempt)}
    words = ["sh", "-e", "-c", command]
    return subprocess.run(words, cwd=folder, env=env, capture_output=True, text=True, timeout=20, check=False)


def test_the_first_jobs_do_what_their_comments_say(tmp_path):
    tasks = {spec.name: spec for spec in good((ROOT / "examples" / "first.yaml").read_text()).tasks}
    for spec in tasks.values():
        for trigger in spec.triggers:
            assert trigger.kind != "every" or trigger.every_ms < MINUTE, "something to see within a minute"
    first = run(tasks["flaky"].command.text, tmp_path, 1)
    second = run(tasks["flaky"].command.text, tmp_path, 2)
    assert (first.returncode, second.returncode) == (1, 0)
    assert list(tmp_path.iterdir()) == []
    for name in ("hello", "disk", "machine", "tidy"):
        done = run(tasks[name].command.text, tmp_path, 1)
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout or name == "tidy"


@pytest.mark.parametrize("shell", ["sh", "bash"])
def test_the_variables_that_are_refused_are_those_that_shells_change(shell):
    """No variable that the reader lets through is changed by a shell on its way to the command."""
    usual = [
        "HOME",
        "LANG",
        "TERM",
        "TZ",
        "MAIL",
        "ENV",
        "CDPATH",
        "UID",
        "HOSTNAME",
        "SECONDS",
        "OPTARG",
        "PS3",
    ]
    env = {"PATH": os.environ["PATH"], **dict.fromkeys(usual, "zz9")}
    done = subprocess.run(
        [shell, "-c", "exec env"], env=env, capture_output=True, text=True, check=True, timeout=20
    )
    seen = dict(line.split("=", 1) for line in done.stdout.splitlines())
    assert {name: seen.get(name) for name in usual} == dict.fromkeys(usual, "zz9")
    assert not set(usual) & set(SHELL_OWNED)
