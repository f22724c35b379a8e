"""``ql show RUN``: the facts about one Run."""

from __future__ import annotations

import click

from qinglong.cli.runs_table import STYLES, state_cell
from qinglong.cli.session import Session, print_json
from qinglong.cli.settings import Settings
from qinglong.cli.terminal import Cell, Terminal, line
from qinglong.cli.times import took
from qinglong.cli.verb import verb
from qinglong.wire.api import AttemptInfo, RunDetail

_HEADERS = ("ATTEMPT", "STATUS", "WORKER", "STARTED", "TOOK", "OUTPUT", "RESULT")
_RESULT = 6


@verb("show", "Show one run.", "RUN is an id, its beginning or end, or a task's name: its newest run.")
@click.argument("run")
def command(settings: Settings, run: str) -> int:
    """Print the Run's facts, its Attempts, and where it stands."""
    session = Session(settings)
    reply = session.detail(run)
    if settings.json:
        return print_json(reply)
    detail = reply.decode(RunDetail)
    terminal = session.terminal
    terminal.pairs(_facts(detail, terminal))
    if detail.attempts:
        terminal.say()
        terminal.table(_HEADERS, [_attempt(each, terminal) for each in detail.attempts], loose=_RESULT)
    if detail.now:
        terminal.say()
        for sentence in detail.now:
            terminal.say(line(sentence))
    return 0


def _facts(detail: RunDetail, terminal: Terminal) -> list[tuple[str, Cell]]:
    run = detail.run
    end = "" if run.exit_code is None else str(run.exit_code)
    return [
        ("run", Cell(run.run_id, "bold")),
        ("task", Cell(f"{line(run.task)} (revision {run.revision}, project {line(run.project)})")),
        ("state", state_cell(run)),
        ("cause", Cell(line(run.cause))),
        ("scheduled", Cell(terminal.moment(run.scheduled_ms))),
        ("created", Cell(terminal.moment(run.created_ms))),
        ("started", Cell(terminal.moment(run.started_ms))),
        ("finished", Cell(terminal.moment(run.finished_ms))),
        ("next attempt", Cell(terminal.moment(run.available_ms))),
        ("unreachable", Cell(terminal.moment(run.unreachable_ms), "red")),
        ("exit code", Cell(end)),
        ("signal", Cell("" if run.signal is None else str(run.signal))),
        ("reason", Cell(line(run.reason))),
        ("late reports", Cell(str(detail.late_reports) if detail.late_reports else "")),
    ]


def _attempt(found: AttemptInfo, terminal: Terminal) -> tuple[Cell, ...]:
    start = found.running_ms if found.running_ms is not None else found.starting_ms
    end = found.ended_ms if found.ended_ms is not None else terminal.now_ms
    output = "" if found.log_bytes is None else f"{found.log_bytes:,} B"
    if found.log_dropped:
        output += f" ({found.log_dropped:,} cut)"
    code = "" if found.exit_code is None else f"exit code {found.exit_code}"
    return (
        Cell(str(found.number)),
        Cell(line(found.status), STYLES.get(found.status, "")),
        Cell(line(found.worker)),
        Cell(terminal.moment(start)),
        Cell(took(start, end)),
        Cell(output),
        Cell(line(found.reason) or code),
    )


__all__ = ["command"]
