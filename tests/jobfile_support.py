"""Short ways to write job files in tests, and to say exactly where a problem must be."""

from __future__ import annotations

import textwrap

from qinglong.domain.definitions import FileSet, TaskSpec
from qinglong.wire.jobfile import Problem, load

MARK = "«"
"""Stands before the character where the one problem of a text must be reported."""
PATH = "/jobs/file.yaml"


def read(text: str, **given) -> tuple[FileSet | None, list[Problem]]:
    return load(text, **{"path": PATH, "machine_zone": "UTC", **given})


def good(text: str, **given) -> FileSet:
    """The file set of a text that has no problem."""
    found, problems = read(text, **given)
    assert problems == []
    assert found is not None
    return found


def in_task(fields: str, head: str = "") -> str:
    """A file with one task named ``job``; ``fields`` may hold several lines."""
    body = textwrap.indent(textwrap.dedent(fields).strip("\n"), "    ")
    run = "" if body.lstrip().startswith("run:") or "\n    run:" in body else "    run: echo\n"
    return f"version: 1\n{head}tasks:\n  job:\n{run}{body}\n"


def task(fields: str, head: str = "", **given) -> TaskSpec:
    return good(in_task(fields, head), **given).tasks[0]


def only(marked: str, **given) -> Problem:
    """The one problem of a text, which must stand at the mark and have a remedy."""
    before, mark, after = marked.partition(MARK)
    assert mark, "the text needs a mark"
    found, problems = read(before + after, **given)
    assert found is None
    assert len(problems) == 1, [str(problem) for problem in problems]
    place = (before.count("\n") + 1, len(before) - before.rfind("\n"))
    assert (problems[0].line, problems[0].column) == place, str(problems[0])
    assert problems[0].path == given.get("path", PATH)
    assert problems[0].remedy and problems[0].message
    return problems[0]
