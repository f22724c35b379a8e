"""``ql runs``: the list of Runs."""

from __future__ import annotations

import sys

import click

from qinglong.cli import times
from qinglong.cli.runs_table import HEADERS, RESULT, row
from qinglong.cli.session import Session, print_json
from qinglong.cli.settings import Settings
from qinglong.cli.verb import verb
from qinglong.domain.states import RUN
from qinglong.limits import LIST_CAP, LIST_PAGE
from qinglong.wire.api import RunList


@verb(
    "runs",
    "List runs, newest first.",
    "--state open means every state that is not final. --since takes a duration back from now (2h) or a time"
    " (2026-11-30, 2026-11-30T12:00:00+01:00; local without an offset).",
)
@click.option("--task", default="", metavar="T", help="Only this task's runs.")
@click.option(
    "--state", default="", type=click.Choice(["", "open", *RUN]), metavar="S", help="Only this state."
)
@click.option("--since", default="", metavar="WHEN", help="Only runs admitted since then.")
@click.option("--unreachable", is_flag=True, help="Only runs whose worker is silent.")
@click.option(
    "--limit", type=click.IntRange(1, LIST_CAP), default=LIST_PAGE, show_default=True, help="At most so many."
)
def command(settings: Settings, task: str, state: str, since: str, unreachable: bool, limit: int) -> int:
    """Print one page of Runs."""
    session = Session(settings)
    terminal = session.terminal
    query = {
        "project": settings.project,
        "task": task,
        "state": state,
        "since_ms": times.since(since, terminal.now_ms) if since else None,
        "unreachable": "true" if unreachable else None,
        "limit": limit,
    }
    reply = session.get("/runs", query)
    if settings.json:
        return print_json(reply)
    page = reply.decode(RunList)
    if not page.runs:
        sys.stderr.write("no runs\n")
        return 0
    terminal.table(HEADERS, [row(run, terminal) for run in page.runs], loose=RESULT)
    if page.next:
        sys.stderr.write(f"more runs exist; these are the newest {len(page.runs)} (--limit)\n")
    return 0


__all__ = ["command"]
