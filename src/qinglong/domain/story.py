"""A Run's Events as plain sentences: what happened, why, and by whom (I9).

Pure and total: every kind of Event that the rules emit has its sentence, any other is told neutrally with its
data, and nothing in an Event's data makes a sentence fail. What a Run waits for now is told by
:func:`qinglong.domain.story_now.now`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from qinglong.domain import story_ends, story_life
from qinglong.domain import story_words as words
from qinglong.domain.records import Event
from qinglong.domain.story_now import now
from qinglong.domain.story_words import Data, bracketed, capital

Teller = Callable[[Data, int], str]
"""From an Event's data and its moment (UTC ms) to a sentence."""


def tell(event: Event) -> str:
    """One Event in one or two sentences of plain English, without its own moment."""
    teller = TELLERS.get(event.kind)
    return _neutral(event) if teller is None else teller(event.data, event.at_ms)


def _neutral(event: Event) -> str:
    facts = ", ".join(
        f"{words.clean(str(key))}={words.clean(str(value))}" for key, value in event.data.items()
    )
    return f"{capital(words.clean(event.kind).replace('_', ' '))}{bracketed(facts)}."


TELLERS: Final[dict[str, Teller]] = {
    "admitted": story_life.admitted,
    "held": story_life.held,
    "released": story_life.released,
    "offered": story_life.offered,
    "starting": story_life.starting,
    "running": story_life.running,
    "reachable": story_life.reachable,
    "adopted": story_life.adopted,
    "completed": story_life.completed,
    "returned": story_ends.returned,
    "retry_scheduled": story_ends.retry_scheduled,
    "retried": story_ends.retried,
    "failed": story_ends.failed,
    "cancelled": story_ends.cancelled,
    "timed_out": story_ends.timed_out,
    "lost": story_ends.lost,
    "unreachable": story_ends.unreachable,
    "cancel_requested": story_ends.cancel_requested,
    "deadline_requested": story_ends.deadline_requested,
}
"""Every kind of Event; a test holds it against the rules."""

__all__ = ["TELLERS", "now", "tell"]
