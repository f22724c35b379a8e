"""YAML as it is, and the traps in it."""

from __future__ import annotations

import time
import tracemalloc

import pytest
import yaml

from jobfile_support import good, in_task, only, read, task
from qinglong.limits import JOB_FILE_BYTES, JOB_FILE_DEPTH, MIB
from qinglong.wire.jobfile import composing


@pytest.fixture(params=["c", "python"])
def either_loader(request, monkeypatch):
    """PyYAML with and without its C part; some installations lack it."""
    if request.param == "python":
        monkeypatch.setattr(composing, "_LOADER", yaml.SafeLoader)
    elif not hasattr(yaml, "CSafeLoader"):
        pytest.skip("PyYAML has no C part here")


@pytest.mark.usefixtures("either_loader")
@pytest.mark.parametrize(
    "written",
    [
        "on",
        "off",
        "yes",
        "No",
        "true",
        "1:30",
        "0755",
        "0o17",
        "1_000",
        "1e3",
        ".5",
        "2027-01-31",
        "0x1F",
        "+1",
        "-",
    ],
)
def test_no_scalar_is_turned_into_something_else(written):
    if written == "-":
        assert task('env: {A: "-"}').env == {"A": "-"}
    else:
        assert task(f"env: {{A: {written}}}").env == {"A": written}


def test_keys_are_texts_too():
    assert task("labels: {on: a, 1: b, 0x1: c}").labels == {"on": "a", "1": "b", "0x1": "c"}


@pytest.mark.usefixtures("either_loader")
@pytest.mark.parametrize(
    ("fields", "code", "remedy"),
    [
        ("run: x\nschedule: «*/5 * * * *", "syntax", 'quotes, as "*/5 * * * *"'),
        ("run: x\nschedule: «@daily", "syntax", "quotes"),
        ("run: x\nnotes: «%x", "syntax", "quotes"),
        ("run: x\nnotes: «`x`", "syntax", "quotes"),
        ("run: a«: b", "syntax", "quotes"),
        ("run: «'x", "syntax", "close the quotes"),
        ("run: «[a, b\nshell: sh", "syntax", "bracket"),
        ("run: «{script: a", "syntax", "bracket"),
        ("run: x\nnotes: «!!python/name:os.system x", "tag", "remove the tag"),
        ("run: x\nlabels: {a: «!!int 1}", "tag", "remove the tag"),
        ("run: x\nnotes: «*gone", "alias", '"*gone"'),
        ("run: &a [x, «*a]", "alias", "define it further up"),
        ("run: x\n? «[a]\n: b", "key", "name"),
        ("run: x\n<<: «5", "merge", "<<: *name"),
        ("run: x\n<<: {}\n«<<: {}", "duplicate_key", "[*a, *b]"),
        ("run: x\nnotes: «\0", "character", "NUL"),
        ("run: x\nnotes: a «\x1b[31m", "character", '"\\u001b"'),
        ("run: x\nnotes: «\ud800", "character", "remove it"),
    ],
)
def test_trap(fields, code, remedy):
    # The bracket forms swallow what follows: their place is where they open.
    text = "version: 1\ntasks:\n  job:\n" + "".join(f"    {line}\n" for line in fields.split("\n"))
    problem = only(text)
    assert problem.code == code
    assert remedy in problem.remedy


@pytest.mark.usefixtures("either_loader")
def test_tabs_as_indentation_are_named_as_what_they_are():
    for text in ("version: 1\ntasks:\n«\ta: {}\n", "version: 1\ntasks:\n  a:\n    run: x\n«\tshell: sh\n"):
        _, problems = read(text.replace("«", ""))
        assert [problem.code for problem in problems] == ["syntax"]
        assert "spaces" in problems[0].remedy
        assert problems[0].line == text[: text.index("«")].count("\n") + 1


@pytest.mark.parametrize("text", ["", "# only a comment\n", "---\n", "\ufeff", "\n\n", "~"])
def test_an_empty_file_says_how_to_begin(text):
    found, problems = read(text)
    assert found is None
    assert [problem.code for problem in problems] == ["empty"]
    assert "version: 1" in problems[0].remedy


def test_several_documents_are_refused_and_the_first_is_still_read():
    _, problems = read("version: 1\ntasks: {a: {run: x, timeout: 5}}\n---\nversion: 1\n")
    assert [(problem.code, problem.line) for problem in problems] == [
        ("duration_without_unit", 2),
        ("several_documents", 3),
    ]


@pytest.mark.parametrize("text", ["---\n{}", "{}\n...\n", "\ufeff{}", "%YAML 1.1\n---\n{}", "# a\n{}# b\n"])
def test_one_document_may_be_marked_as_such(text):
    assert good(text.replace("{}", "version: 1\ntasks: {}\n"))


def test_line_ends_of_windows_are_read_as_lines():
    spec = good("version: 1\r\ntasks:\r\n  job:\r\n    run: |\r\n      a\r\n      b\r\n").tasks[0]
    assert spec.command.text == "a\nb\n"


def test_anchors_and_merge_keys_with_own_keys_first():
    found = good(
        """
version: 1
x-base: &base
  run: base
  timeout: 5m
  env: &env {A: 1}
x-more: &more {timeout: 9m, notes: more}
tasks:
  plain: *base
  own: {<<: *base, run: own, env: {<<: *env, B: 2}}
  both: {<<: [*more, *base]}
"""
    )
    plain, own, both = found.tasks
    assert (plain.command.text, plain.timeout_ms, plain.env) == ("base", 300_000, {"A": "1"})
    assert (own.command.text, own.timeout_ms, own.env) == ("own", 300_000, {"A": "1", "B": "2"})
    assert (both.command.text, both.timeout_ms, both.notes) == ("base", 540_000, "more")


def test_a_mistake_in_an_anchor_is_reported_where_it_is_written_for_each_use():
    _, problems = read("version: 1\nx-a: &a {run: x, timeout: 5}\ntasks: {a: *a, b: {<<: *a}}")
    assert [(problem.line, problem.field) for problem in problems] == [
        (2, "tasks.a.timeout"),
        (2, "tasks.b.timeout"),
    ]


def test_a_quoted_merge_key_is_a_key():
    assert only(in_task('run: x\n«"<<": {}')).code == "unknown_field"


def test_i10_alias_bombs_are_refused_cheaply():
    lines = ["version: 1", "x-a: &a [" + ", ".join("x" * 10) + "]"]
    for before, after in zip("abcdefgh", "bcdefghi", strict=True):
        lines.append(f"x-{after}: &{after} [" + ", ".join([f"*{before}"] * 10) + "]")
    tracemalloc.start()
    _, problems = read("\n".join([*lines, "tasks: {}"]))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert [problem.code for problem in problems] == ["too_large"]
    assert peak < MIB


def test_i10_merges_are_counted_as_what_they_become():
    env = ", ".join(f"A{n}: {'x' * 200}" for n in range(900))
    merges = "".join(f"  t{n}: {{run: x, env: {{<<: *e}}}}\n" for n in range(5_000))
    _, problems = read(f"version: 1\nx-e: &e {{{env}}}\ntasks:\n{merges}")
    assert [problem.code for problem in problems] == ["too_large"]


@pytest.mark.parametrize("opening", ["[", "{a: ", "- "])
def test_i10_depth_is_bounded(opening):
    _, problems = read(opening * 500)
    assert [problem.code for problem in problems] == ["too_deep"]
    assert str(JOB_FILE_DEPTH) in problems[0].message
    assert len(read(opening * 100_000)[1]) == 1


def test_i10_a_file_that_is_too_large_is_not_parsed():
    for filler in ("#" * (JOB_FILE_BYTES + 1), "é" * (JOB_FILE_BYTES // 2 + 1)):
        _, problems = read(filler)
        assert [problem.code for problem in problems] == ["too_large"]


def test_a_thousand_tasks_load_well_under_a_second():
    block = """
  t{n}:
    run: echo {n}
    schedule: "{m} 3 * * *"
    timeout: 5m
    retry: {{max_attempts: 3, when: [failed], backoff: {{initial: 10s}}}}
    env: {{A: x, B: y}}
    labels: {{team: ops}}
"""
    text = "version: 1\ntasks:" + "".join(block.format(n=n, m=n % 60) for n in range(1_000))
    started = time.perf_counter()
    assert len(good(text).tasks) == 1_000
    assert time.perf_counter() - started < 2
    tracemalloc.start()
    read(text)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 32 * MIB
