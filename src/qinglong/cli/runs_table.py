"""A Run in a few words: its state with what qualifies it, and the rows of the list."""

from __future__ import annotations

from typing import Final

from qinglong.cli.terminal import Cell, Terminal, line
from qinglong.cli.times import took
from qinglong.wire.api import RunInfo

ID_CHARS: Final = 8
"""How much of an id's end is shown; every command takes it back."""

STYLES: Final[dict[str, str]] = {
    "created": "dim",
    "queued": "cyan",
    "dispatching": "blue",
    "running": "blue",
    "retry_wait": "yellow",
    "lost": "red",
    "succeeded": "green",
    "failed": "red",
    "cancelled": "yellow",
    "timed_out": "red",
}
HEADERS: Final = ("RUN", "TASK", "STATE", "CREATED", "TOOK", "RESULT")
RESULT: Final = 5


def short(run_id: str) -> str:
    """The end of an id."""
    return run_id[-ID_CHARS:]


def state_words(run: RunInfo) -> str:
    """The state and the conditions that stand beside it: ``running (unreachable)``."""
    beside = [f"held: {run.held_by}"] if run.held_by else []
    beside += ["unreachable"] if run.unreachable_ms is not None else []
    beside += ["cancelling"] if run.cancelling and run.finished_ms is None else []
    return f"{run.state} ({', '.join(beside)})" if beside else run.state


def state_cell(run: RunInfo) -> Cell:
    """The state in its colour; red when nobody answers."""
    style = "red" if run.unreachable_ms is not None else STYLES.get(run.state, "")
    return Cell(line(state_words(run)), style)


def result_words(run: RunInfo, terminal: Terminal) -> str:
    """How it ended, or the moment it waits for."""
    if run.state == "retry_wait" and run.available_ms is not None:
        return f"attempt {run.attempt + 1} due {terminal.moment(run.available_ms)}"
    if run.unreachable_ms is not None:
        return f"since {terminal.moment(run.unreachable_ms)}"
    if run.reason:
        return line(run.reason)
    return "" if run.exit_code is None else f"exit code {run.exit_code}"


def row(run: RunInfo, terminal: Terminal) -> tuple[Cell, ...]:
    """One line of the list; it took from its admission to its end, or until now."""
    end = run.finished_ms if run.finished_ms is not None else terminal.now_ms
    return (
        Cell(short(run.run_id), "bold"),
        Cell(line(run.task)),
        state_cell(run),
        Cell(terminal.moment(run.created_ms)),
        Cell(took(run.created_ms, end)),
        Cell(result_words(run, terminal)),
    )


__all__ = ["HEADERS", "RESULT", "row", "short", "state_cell", "state_words"]
