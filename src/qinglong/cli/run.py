"""``ql run TASK``: start a task by hand and, if wished, follow it to its end."""

from __future__ import annotations

import shlex
import sys

import click

from qinglong.cli.codes import INTERRUPTED
from qinglong.cli.follow import Tail, exit_code, follow
from qinglong.cli.output import Output, StateLine
from qinglong.cli.runs_table import short, state_words
from qinglong.cli.session import API, Session, print_json
from qinglong.cli.settings import Settings
from qinglong.cli.terminal import line
from qinglong.cli.times import took
from qinglong.cli.verb import verb
from qinglong.domain.states import RUN_FINAL
from qinglong.effects import Ids, SystemClock, SystemRng
from qinglong.errors import Invalid, Unavailable, Unknown
from qinglong.wire.api import KEY_CHARS, RunDetail, RunInfo, RunRequest


@verb(
    "run",
    "Start a task by hand.",
    "With --follow it ends with the job's exit code: 128 + n for a signal, 124 timed out, 125 failed otherwise,"
    " lost or cancelled. Ctrl-C detaches; the run goes on."
    "\n\nThe same --key again starts nothing: it gives the run that it started.",
)
@click.argument("task")
@click.option("-f", "--follow", "follows", is_flag=True, help="Show state and output until it has ended.")
@click.option("--allow-overlap", is_flag=True, help="Start it beside an older run.")
@click.option("--key", default="", metavar="K", help="Idempotency key [a new one].")
def command(settings: Settings, task: str, follows: bool, allow_overlap: bool, key: str) -> int:
    """Admit a Run; print it, or follow it."""
    if not all("!" <= letter <= "~" for letter in key) or len(key) > KEY_CHARS:
        raise Invalid("key", f"a key is up to {KEY_CHARS} visible ASCII characters", place="--key")
    key = key or f"ql-{Ids(SystemClock(), SystemRng()).new()}"
    session = Session(settings)
    wish = RunRequest(task=task, project=settings.project, allow_overlap=allow_overlap)
    repeat = f"repeat with the same key: {_again(settings, wish, key)}"
    try:
        reply = session.client.post(f"{API}/runs", wish, {"Idempotency-Key": key}, RunInfo, repeat)
        run = reply.decode(RunInfo)
    except Unknown as error:
        raise Unknown(error.code, error.message, place=error.place, remedy=repeat) from None
    if follows:
        return _follow(session, run)
    if settings.json:
        return print_json(reply)
    state = session.terminal.paint(line(state_words(run)), "bold")
    session.terminal.say(f"run {short(run.run_id)} of {line(run.task)}: {state}")
    return 0


def _again(settings: Settings, wish: RunRequest, key: str) -> str:
    words = ["ql", "run", wish.task, "--key", key]
    words += ["--allow-overlap"] if wish.allow_overlap else []
    words += ["--project", settings.project] if settings.project != "default" else []
    return shlex.join(words)


def _follow(session: Session, run: RunInfo) -> int:
    name = f"run {short(run.run_id)}"
    try:
        detail = _to_the_end(session, run)
    except KeyboardInterrupt:
        sys.stderr.write(
            f"\ndetached; {name} goes on: `ql logs -f {short(run.run_id)}` follows it,"
            f" `ql cancel {short(run.run_id)}` ends it\n"
        )
        return INTERRUPTED
    except Unavailable as error:
        remedy = f"{name} is not affected; follow it again with `ql logs -f {short(run.run_id)}`"
        raise Unavailable(error.code, error.message, place=error.place, remedy=remedy) from None
    if session.settings.json:
        print_json(session.detail(run.run_id))
    return exit_code(detail)


def _to_the_end(session: Session, run: RunInfo) -> RunDetail:
    first = session.detail(run.run_id).decode(RunDetail)
    if session.settings.json:
        # Stdout is one JSON document: the Run as it ended.
        return follow(session.client, first, lambda _: None, None)
    state = StateLine(session.terminal)
    output = Output(session.terminal, state=state)
    tail = Tail(session.client, run.run_id, output, 1)
    try:
        detail = follow(session.client, first, lambda now: _show(state, now), tail)
    finally:
        state.hide()
        output.end()
    state.end(_last_words(detail.run))
    return detail


def _show(state: StateLine, run: RunInfo) -> None:
    """Every state but the last, which is told with its reason when all output is there."""
    if run.state not in RUN_FINAL:
        state.show(_words(run))


def _words(run: RunInfo) -> str:
    attempt = f", attempt {run.attempt}" if run.attempt > 1 else ""
    return f"run {short(run.run_id)} of {line(run.task)}: {line(state_words(run))}{attempt}"


def _last_words(run: RunInfo) -> str:
    why = f" ({line(run.reason)})" if run.reason else ""
    lasted = took(run.created_ms, run.finished_ms)
    return f"{_words(run)}{why}" + (f" after {lasted}" if lasted else "")


__all__ = ["command"]
