"""``ql cancel RUN…``: ask Runs to end; one that has begun ends when that is a fact."""

from __future__ import annotations

import sys

import click
import msgspec

from qinglong.cli.client import Reply
from qinglong.cli.codes import INTERRUPTED
from qinglong.cli.failures import warn
from qinglong.cli.follow import follow
from qinglong.cli.runs_table import short
from qinglong.cli.session import API, Session, part
from qinglong.cli.settings import Settings
from qinglong.cli.terminal import line
from qinglong.cli.verb import verb
from qinglong.domain.states import RUN_FINAL
from qinglong.errors import QingLongError
from qinglong.wire.api import CancelRequest, RunDetail, RunInfo


@verb(
    "cancel",
    "Ask runs to end.",
    "A run that has not begun ends at once. Of one that has, the worker stops the command; the run is cancelled when"
    " that is confirmed, which --wait waits for. With several runs, all are asked, and the first error's exit code"
    " is the command's.",
)
@click.argument("runs", nargs=-1, required=True, metavar="RUN...")
@click.option("--wait", is_flag=True, help="Return when they have ended.")
@click.option("--reason", default="", metavar="R", help="Why; stands in the run's story.")
def command(settings: Settings, runs: tuple[str, ...], wait: bool, reason: str) -> int:
    """Cancel each Run, then wait if asked to."""
    session = Session(settings)
    code = 0
    asked: list[Reply] = []
    for run in runs:
        try:
            asked.append(_ask(session, run, reason))
        except QingLongError as error:
            if len(runs) == 1:
                raise
            warn(error, settings)
            code = code or error.exit_code
    if wait:
        try:
            asked = [_ended(session, reply.decode(RunInfo)) for reply in asked]
        except KeyboardInterrupt:
            sys.stderr.write("\nno longer waiting; the cancellation stays asked for\n")
            return INTERRUPTED
    if settings.json:
        _print(asked, several=len(runs) > 1)
    return code


def _ask(session: Session, run: str, reason: str) -> Reply:
    path = f"{API}/runs/{part(run)}/cancel"
    repeat = "cancel it again: asking twice is harmless"
    reply = session.client.post(path, CancelRequest(reason=reason), {}, RunInfo, repeat)
    if not session.settings.json:
        _tell(session, reply.decode(RunInfo))
    return reply


def _ended(session: Session, run: RunInfo) -> Reply:
    """The Run once it is final, as the API shows it."""
    began_open = run.state not in RUN_FINAL
    if began_open:
        detail = session.detail(run.run_id).decode(RunDetail)
        follow(session.client, detail, lambda _: None, None)
    reply = session.detail(run.run_id)
    if began_open and not session.settings.json:
        _tell(session, reply.decode(RunDetail).run)
    return reply


def _tell(session: Session, run: RunInfo) -> None:
    name = f"run {short(run.run_id)} of {line(run.task)}"
    if run.state in RUN_FINAL:
        session.terminal.say(f"{name}: {run.state}")
    else:
        session.terminal.say(f"{name}: asked to stop, still {run.state}")
    sys.stdout.flush()


def _print(replies: list[Reply], *, several: bool) -> None:
    """One document: the Run, or the list of those that could be asked."""
    bodies = [msgspec.Raw(reply.body) for reply in replies]
    whole = bodies if several else bodies[0]
    sys.stdout.write(f"{msgspec.json.encode(whole).decode()}\n")


__all__ = ["command"]
