"""``ql explain RUN``: what happened, why, and what the Run waits for."""

from __future__ import annotations

import re
from datetime import datetime

import click

from qinglong.cli import times
from qinglong.cli.runs_table import state_cell
from qinglong.cli.session import Session, print_json
from qinglong.cli.settings import Settings
from qinglong.cli.terminal import Terminal, line
from qinglong.cli.verb import verb
from qinglong.domain.records import Event
from qinglong.domain.story import tell
from qinglong.limits import SECOND
from qinglong.wire.api import EventInfo, RunDetail

_SENTENCE_CHARS = 4096
_MOMENT = re.compile(r"\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
"""How the story writes a moment: UTC, to the second."""


def _local(found: re.Match[str]) -> str:
    at = datetime.fromisoformat(found[0])
    return times.iso(int(at.timestamp() * SECOND))


@verb(
    "explain",
    "Tell a run's story and what it waits for.",
    "RUN is an id, its beginning or end, or a task's name: its newest run.",
)
@click.argument("run")
def command(settings: Settings, run: str) -> int:
    """Print a header, each Event as a sentence, and what is so now."""
    session = Session(settings)
    reply = session.detail(run)
    if settings.json:
        return print_json(reply)
    detail = reply.decode(RunDetail)
    terminal = session.terminal
    state = state_cell(detail.run)
    header = f"{terminal.paint(line(detail.run.task), 'bold')} run {detail.run.run_id}"
    terminal.say(f"{header}: {terminal.paint(state.text, state.style)}")
    terminal.say()
    for event in detail.events:
        terminal.hanging(_when(event, terminal), _sentence(event, detail.run.run_id))
    if detail.now:
        terminal.say()
        terminal.say(terminal.paint("Now:", "bold"))
        for sentence in detail.now:
            terminal.hanging("", _safe(sentence))
    return 0


def _when(event: EventInfo, terminal: Terminal) -> str:
    if not terminal.is_tty:
        return times.iso(event.at_ms)
    return times.local(event.at_ms).strftime("%d %b %H:%M:%S")


def _sentence(event: EventInfo, run_id: str) -> str:
    """The server's sentence; an older server may have none for an Event, then ours."""
    return _safe(event.text or tell(Event(run_id, event.version, event.at_ms, event.kind, event.data)))


def _safe(text: str) -> str:
    """One printable line, its moments in the zone of the times beside it."""
    text = _MOMENT.sub(_local, text[:_SENTENCE_CHARS])
    return "".join(letter if letter.isprintable() else " " for letter in text)


__all__ = ["command"]
