"""One job file: its head first, because tasks refer to groups of the whole set, then its tasks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from qinglong.domain.definitions import TaskSpec
from qinglong.domain.zone import load_zone
from qinglong.errors import Invalid
from qinglong.limits import NAME_CHARS, TASKS_PER_SET
from qinglong.wire.jobfile import nodes, values
from qinglong.wire.jobfile.problems import Problems, quoted
from qinglong.wire.jobfile.reading import (
    Cursor,
    Field,
    Found,
    entries,
    later,
    record,
    require,
    unsupported,
)
from qinglong.wire.jobfile.scope import Scope
from qinglong.wire.jobfile.task import read_defaults, read_task, refuse_lost
from qinglong.wire.jobfile.times import zone

VERSION: Final = 1
DEFAULT_PROJECT: Final = "default"
GROUP_SIZE: Final = TASKS_PER_SET
"""Largest number of Runs at once that a concurrency group may allow."""


class Document(NamedTuple):
    """The head of one file, read; defaults and tasks are still to be read."""

    problems: Problems
    folder: str
    root: Cursor
    project: str
    zone: str
    groups: dict[str, tuple[int, Cursor]]
    defaults: Cursor | None
    tasks: Cursor | None


def _version(at: Cursor, _scope: None) -> None:
    node = at.node
    if isinstance(node, nodes.Scalar) and node.plain and not node.null and node.text != str(VERSION):
        message = f"version {quoted(node.text)} is not known: this program reads version {VERSION}"
        at.problem("version", message, f"write version: {VERSION}")
        return
    values.integer(at, VERSION, VERSION)


def _project(at: Cursor, _scope: None) -> str:
    return values.name(at, values.text(at), "project")


def _groups(at: Cursor, _scope: None) -> dict[str, tuple[int, Cursor]]:
    groups = {}
    for key, value in entries(at, TASKS_PER_SET):
        values.name(value, key, "group", at_key=True)
        value.example = f"{key[:NAME_CHARS]}: 1"
        groups[key] = (values.integer(value, 1, GROUP_SIZE), value)
    return groups


FILE: Final = {
    "version": Field(_version, "version: 1"),
    "project": Field(_project, "project: default"),
    "timezone": Field(zone, "timezone: Europe/Berlin"),
    "concurrency_groups": Field(_groups, "concurrency_groups: {db: 1}"),
    "defaults": Field(later, "defaults: {timeout: 1h}"),
    "tasks": Field(later, "tasks: {hello: {run: echo hello}}"),
    "workflows": Field(unsupported, "workflows: {}"),
}
_HINTS: Final = {
    **dict.fromkeys(("jobs", "services", "task"), "write tasks: instead"),
    **dict.fromkeys(("tz", "zone"), "write timezone: instead"),
    "groups": "write concurrency_groups: instead",
    "default": "write defaults: instead",
    "name": "write project: instead",
}


def read_head(root: nodes.Node, folder: str, machine_zone: str, problems: Problems) -> Document:
    """Read everything but the defaults and the tasks."""
    at = Cursor(root, "", problems, "version: 1, tasks: {…}")
    found = record(at, FILE, None, _HINTS)
    require(at, found, "version", f"begin the file with version: {VERSION}")
    require(at, found, "tasks", "add tasks:, or tasks: {} for none")
    return Document(
        problems=problems,
        folder=folder,
        root=at,
        project=found["project"].value if "project" in found else DEFAULT_PROJECT,
        zone=found["timezone"].value if "timezone" in found else _checked(machine_zone, problems),
        groups=found["concurrency_groups"].value if "concurrency_groups" in found else {},
        defaults=_at(found, "defaults"),
        tasks=_at(found, "tasks"),
    )


def _at(found: dict[str, Found], name: str) -> Cursor | None:
    return found[name].at if name in found else None


def _checked(machine_zone: str, problems: Problems) -> str:
    try:
        load_zone(machine_zone)
    except Invalid as error:
        message = f"the file names no time zone and the machine's is of no use: {error.message}"
        problems.add((0, 0), "timezone", error.code, message, "write timezone: with an IANA name, as UTC")
        return "UTC"
    return machine_zone


def read_tasks(
    document: Document, groups: dict[str, int], file_exists: Callable[[str], bool] | None
) -> list[tuple[Cursor, TaskSpec]]:
    """The tasks of one file in file order, each with its place."""
    scope = Scope(document.folder, document.zone, groups, file_exists)
    defaults = read_defaults(document.defaults, scope) if document.defaults else {}
    if document.tasks is None:
        return []
    tasks = []
    for name, at in entries(document.tasks, TASKS_PER_SET):
        values.name(at, name, "task", at_key=True)
        at.example = "{run: echo hello}"
        tasks.append((at, read_task(at, name, scope, defaults)))
    _check_default_retry([spec for _, spec in tasks], defaults)
    return tasks


def _check_default_retry(tasks: list[TaskSpec], defaults: dict[str, Found]) -> None:
    """Reported once, where it stands, and not again for each task that inherits it."""
    if "retry" not in defaults:
        return
    retry = defaults["retry"].value
    unsafe = [spec.name for spec in tasks if spec.retry is retry and spec.safety is None]
    if unsafe and "lost" in retry.when:
        names = ", ".join(quoted(name) for name in unsafe[:3]) + (", …" if len(unsafe) > 3 else "")
        refuse_lost(defaults["retry"].at, f"safety: idempotent (or deduplicated) to {names} or to defaults")
