"""``ql check FILE…``: every mistake of the job files at once, or what they define and when it runs next."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Any

import click
import msgspec

from qinglong.cli.settings import Settings
from qinglong.cli.terminal import Cell, Terminal, line
from qinglong.cli.verb import verb
from qinglong.domain.definitions import FileSet, TaskSpec, TriggerSpec
from qinglong.errors import Invalid
from qinglong.wire.jobfile import Problem, load_files

_HEADERS = ("TASK", "NEXT", "SCHEDULE")
_SCHEDULE = 2


@verb(
    "check",
    "Check job files without a server.",
    "Every problem is printed with its place and remedy, and the exit code is 2. Without problems: the tasks, their"
    " schedules in words, and when each is due next.",
)
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=str), metavar="FILE...")
def command(settings: Settings, files: tuple[str, ...]) -> int:
    """Print the problems or the summary."""
    from qinglong.profiles.files import unplaceable
    from qinglong.profiles.machine import machine_zone

    found, problems = load_files(files, machine_zone=machine_zone(), file_exists=os.path.exists)
    terminal = Terminal(settings)
    notes = unplaceable(found, files[0]) if found is not None else ()
    if settings.json:
        sys.stdout.write(
            f"{msgspec.json.encode(_document(found, problems, notes, terminal.now_ms)).decode()}\n"
        )
    elif found is not None:
        _summary(found, notes, terminal)
    else:
        _list(problems, terminal)
    if found is None:
        sys.stdout.flush()
        raise Invalid("job_file_invalid", _tally(problems))
    return 0


def _list(problems: Sequence[Problem], terminal: Terminal) -> None:
    for problem in problems:
        place = f"{problem.path}:{problem.line}:{problem.column}" if problem.line else problem.path
        field = f"{problem.field}: " if problem.field else ""
        terminal.say(f"{terminal.paint(_safe(place), 'bold')}: {_safe(field)}{_safe(problem.message)}")
        if problem.remedy:
            terminal.say(f"    remedy: {_safe(problem.remedy)}")


def _summary(found: FileSet, notes: Sequence[Problem], terminal: Terminal) -> None:
    rows = [
        (
            Cell(line(task.name), "bold"),
            Cell(terminal.moment(_next(task, terminal.now_ms))),
            Cell("; ".join(line(words) for words in _schedule(task)) or "by hand only"),
        )
        for task in found.tasks
    ]
    if rows:
        terminal.table(_HEADERS, rows, loose=_SCHEDULE)
    count = len(found.tasks)
    sys.stdout.flush()
    sys.stderr.write(f"ok: {count:,} task{'' if count == 1 else 's'} in project {found.project}\n")
    for note in notes:
        sys.stderr.write(f"note: {_safe(note.field)}: {_safe(note.message)}; {_safe(note.remedy)}\n")


def _schedule(task: TaskSpec) -> list[str]:
    from qinglong.api.present import trigger_text

    return [trigger_text(trigger) for trigger in task.triggers]


def _next(task: TaskSpec, now_ms: int) -> int | None:
    """The next due moment, as if the files were published now."""
    coming = [_due(trigger, now_ms) for trigger in task.triggers]
    return min((moment for moment in coming if moment is not None), default=None)


def _due(trigger: TriggerSpec, now_ms: int) -> int | None:
    from qinglong.domain.schedule import first_after

    return first_after(trigger, now_ms, now_ms)


def _document(
    found: FileSet | None, problems: Sequence[Problem], notes: Sequence[Problem], now_ms: int
) -> dict[str, Any]:
    tasks = found.tasks if found is not None else ()
    return {
        "ok": found is not None,
        "project": found.project if found is not None else None,
        "tasks": [
            {
                "name": task.name,
                "next_ms": _next(task, now_ms),
                "triggers": [
                    {"id": trigger.id, "kind": trigger.kind, "text": words, "next_ms": _due(trigger, now_ms)}
                    for trigger, words in zip(task.triggers, _schedule(task), strict=True)
                ],
            }
            for task in tasks
        ],
        "problems": problems,
        "notes": notes,
    }


def _tally(problems: Sequence[Problem]) -> str:
    files = len({problem.path for problem in problems})
    many = f"{len(problems)} problem{'' if len(problems) == 1 else 's'}"
    return f"{many} in {files} file{'' if files == 1 else 's'}"


def _safe(text: str) -> str:
    return "".join(letter if letter.isprintable() else "�" for letter in text)


__all__ = ["command"]
