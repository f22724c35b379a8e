"""Laws of the reader that hold for any text at all."""

from __future__ import annotations

import json
from pathlib import Path

from hypothesis import example, given, settings
from hypothesis import strategies as st

from jobfile_support import read
from qinglong.domain import definitions
from qinglong.limits import ERRORS_SHOWN
from qinglong.wire.jobfile.document import FILE
from qinglong.wire.jobfile.policy import BACKOFF, RETRY, STOP
from qinglong.wire.jobfile.task import TASK
from qinglong.wire.jobfile.triggers import TRIGGER

ROOT = Path(__file__).parents[2]
VALID = [path.read_text() for path in sorted((ROOT / "examples").glob("*.yaml"))]
YAML_SIGNS = "\n\n  -:#&*?!|>'\"%@`{}[],~<=./\\\t\0\x1b\x85\ufeff\u2028é💥0159aeinrstuxz_TZ+"

SOME_WORDS = [
    *(
        "",
        "1",
        "0",
        "-1",
        "5m",
        "0s",
        "none",
        "lost",
        "failed",
        "* * * * *",
        "0 0 31 2 *",
        "@daily",
        "UTC",
        "Foo/Bar",
    ),
    *(
        "skip",
        "queue",
        "all",
        "keep",
        "true",
        "~/x",
        "/x",
        "a",
        "db",
        "QL_X",
        "IFS",
        "\ud800",
        "\0",
        "x" * 200,
    ),
    *(
        "2027-03-28T02:30",
        "9999-12-31T23:59",
        "1970-01-01T00:00+23:59",
        "1e999",
        ".nan",
        "SIGTERM",
        "9" * 400,
    ),
]
SOME_TEXT = st.text(max_size=20) | st.sampled_from(SOME_WORDS)
FIELDS = [*FILE, *TASK, *TRIGGER, *RETRY, *BACKOFF, *STOP, "script", "args", "file", "x-y", "<<"]
SOME_KEY = SOME_TEXT | st.sampled_from(FIELDS)
SOME_VALUE = st.recursive(
    SOME_TEXT | st.integers() | st.booleans() | st.none() | st.floats(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(SOME_KEY, inner, max_size=4),
    max_leaves=12,
)
RELAXED = settings(deadline=None, max_examples=200)


def check(text: str) -> None:
    """Never an exception; a file set or problems, each with a place and a remedy, in file order."""
    found, problems = read(text, file_exists=lambda path: bool(path))
    assert (found is None) == bool(problems)
    assert len(problems) <= ERRORS_SHOWN
    lines = (
        text.count("\n")
        + 1
        + text.count("\r")
        + text.count("\x85")
        + text.count("\u2028")
        + text.count("\u2029")
    )
    for problem in problems:
        assert problem.code and problem.message and problem.remedy
        assert 0 <= problem.line <= lines + 1
        assert str(problem).isprintable()
    assert [p.line for p in problems] == sorted(p.line for p in problems)
    for spec in found.tasks if found else ():
        assert definitions.decode(definitions.encode(spec)) == spec


@RELAXED
@given(st.text(alphabet=YAML_SIGNS, max_size=120) | st.text(max_size=60))
@example("\ud800")
@example("? ")
@example("- &a\n- *a")
@example("%YAML 9.9\n--- x")
def test_law_any_text_is_read_or_explained(text):
    check(text)


@RELAXED
@given(st.data())
def test_law_a_damaged_file_is_read_or_explained(data):
    text = data.draw(st.sampled_from(VALID))
    for _ in range(data.draw(st.integers(1, 4))):
        start = data.draw(st.integers(0, len(text)))
        end = min(len(text), start + data.draw(st.integers(0, 30)))
        middle = data.draw(
            st.text(alphabet=YAML_SIGNS, max_size=6) | st.just(text[start:end] * 2) | SOME_TEXT
        )
        text = text[:start] + middle + text[end:]
    check(text)


@RELAXED
@given(st.dictionaries(SOME_KEY, SOME_VALUE, max_size=5), st.booleans())
def test_law_any_task_is_read_or_explained(fields, shared):
    document = {"version": 1, "concurrency_groups": {"db": 1}, "tasks": {"job": {"run": "x", **fields}}}
    if shared:
        document["defaults"] = fields
    check(json.dumps(document, ensure_ascii=False).replace("\x7f", ""))
    check(json.dumps(document))


@RELAXED
@given(
    st.lists(st.dictionaries(st.sampled_from(list(TRIGGER)), SOME_VALUE, max_size=3), max_size=3), SOME_TEXT
)
def test_law_any_triggers_are_read_or_explained(triggers, zone):
    check(json.dumps({"version": 1, "timezone": zone, "tasks": {"job": {"run": "x", "triggers": triggers}}}))
