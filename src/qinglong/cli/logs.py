"""``ql logs RUN``: what a Run's command wrote, byte for byte."""

from __future__ import annotations

import sys

import click

from qinglong.cli.codes import INTERRUPTED
from qinglong.cli.follow import Tail, follow
from qinglong.cli.output import Output
from qinglong.cli.runs_table import short
from qinglong.cli.session import Session
from qinglong.cli.settings import Settings
from qinglong.cli.verb import verb
from qinglong.errors import Invalid, NotFound
from qinglong.wire.api import RunDetail


@verb(
    "logs",
    "Print a run's output.",
    "Without --attempt it is that of the newest attempt. -f follows it, over retries, until the run has ended;"
    " Ctrl-C ends following only. Bytes that were cut out of a long log are marked; --raw prints bytes only.",
)
@click.argument("run")
@click.option("-f", "--follow", "follows", is_flag=True, help="Go on until the run has ended.")
@click.option("--attempt", type=click.IntRange(1), metavar="N", help="This attempt's output only.")
@click.option("--step", default="", metavar="S", help="The output of a workflow's step.")
@click.option("--raw", is_flag=True, help="Bytes as they are, also on a terminal; no marks.")
def command(settings: Settings, run: str, follows: bool, attempt: int | None, step: str, raw: bool) -> int:
    """Print the output of one Attempt, or follow."""
    if settings.json:
        raise Invalid("usage", "a log is bytes and has no JSON form", remedy="leave --output json away")
    session = Session(settings)
    detail = session.detail(run).decode(RunDetail)
    number = attempt or detail.run.attempt
    if attempt is not None and all(each.number != attempt for each in detail.attempts):
        message = f"run {short(detail.run.run_id)} has no attempt {attempt}"
        raise NotFound("attempt_unknown", message, remedy="see `ql show` for its attempts")
    output = Output(session.terminal, raw=raw)
    tail = Tail(session.client, detail.run.run_id, output, number, step)
    try:
        if follows:
            follow(session.client, detail, lambda _: None, tail, only=attempt)
        else:
            tail.read(number)
    except KeyboardInterrupt:
        if follows:
            sys.stderr.write(f"\nno longer following; run {short(detail.run.run_id)} is not affected\n")
        return INTERRUPTED
    finally:
        output.end()
    return 0


__all__ = ["command"]
