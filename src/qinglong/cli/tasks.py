"""``ql tasks``: what is defined, and when it runs next."""

from __future__ import annotations

import sys

from qinglong.cli.runs_table import state_cell
from qinglong.cli.session import Session, print_json
from qinglong.cli.settings import Settings
from qinglong.cli.terminal import Cell, Terminal, line
from qinglong.cli.verb import verb
from qinglong.wire.api import TaskInfo, TaskList

_HEADERS = ("TASK", "NEXT", "LAST", "SKIPPED", "SCHEDULE")
_SCHEDULE = 4


@verb("tasks", "List tasks and when they run next.")
def command(settings: Settings) -> int:
    """Print every task of the project."""
    session = Session(settings)
    reply = session.get("/tasks", {"project": settings.project})
    if settings.json:
        return print_json(reply)
    found = reply.decode(TaskList).tasks
    if not found:
        sys.stderr.write("no tasks\n")
        return 0
    terminal = session.terminal
    terminal.table(_HEADERS, [_row(task, terminal) for task in found], loose=_SCHEDULE)
    return 0


def _row(task: TaskInfo, terminal: Terminal) -> tuple[Cell, ...]:
    return (
        Cell(line(task.name), "bold"),
        Cell(terminal.moment(task.next_ms)),
        state_cell(task.last) if task.last else Cell(""),
        Cell(f"{task.skipped:,}" if task.skipped else "", "yellow"),
        Cell("; ".join(line(trigger.text) for trigger in task.triggers) or "by hand only"),
    )


__all__ = ["command"]
