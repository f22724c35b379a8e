"""When triggers fire, and what becomes of occurrences that passed while nobody could admit them.

Pure rules; every time is UTC milliseconds. A trigger has a *cursor*: every occurrence at or before it is
settled, which is to say admitted or skipped with a row (I6, I9). The cursor never goes back, so that a clock
which does cannot make an occurrence twice. Source: design section 11.

Functions that read a cron trigger raise ``Invalid`` when its schedule or zone is no longer accepted, and
``Damaged`` when a stored value breaks a rule; neither can happen right after the trigger was published.
"""

from __future__ import annotations

from typing import Final, Literal

import msgspec

from qinglong.domain import cron
from qinglong.domain.definitions import TriggerSpec
from qinglong.errors import Damaged
from qinglong.limits import CRON_SEARCH_YEARS, DAY, EVERY_MIN_MS, LATE_MS, MISSED_ALL

REACH_MS: Final = CRON_SEARCH_YEARS * 366 * DAY
"""How far one call looks. A clock that jumped by more makes several calls, each a bounded amount of work."""

SkipReason = Literal["missed", "superseded"]


class Skip(msgspec.Struct, frozen=True):
    """Occurrences that will never run: one row for a whole stretch (I9).

    ``missed``: they passed while nobody could admit them and the trigger's ``missed`` policy drops them.
    ``superseded``: the same, found when an edit replaced their revision.
    """

    first_ms: int
    last_ms: int
    count: int
    reason: SkipReason


class Settlement(msgspec.Struct, frozen=True):
    """What to do with a trigger's passed occurrences; apply all of it in one transaction."""

    due: tuple[int, ...]
    """Occurrences to admit, oldest first; at most ``MISSED_ALL``."""
    skips: tuple[Skip, ...]
    cursor_ms: int
    """The new cursor: everything at or before it is settled."""
    next_ms: int | None
    """The next occurrence after the cursor; ``None`` if there is none."""
    more: bool = False
    """The cursor has not reached now: call again with it."""


def first_after(trigger: TriggerSpec, after_ms: int, anchor_ms: int) -> int | None:
    """The first occurrence strictly after ``after_ms``, ``None`` if there is none.

    ``anchor_ms`` is the moment of the trigger's first publication, from which ``every`` counts: occurrence k
    is at ``anchor_ms + k * every_ms``, k from 1. A ``boot`` trigger has no time.
    """
    match trigger.kind:
        case "cron":
            return cron.parse(trigger.expr, trigger.zone).next_after(after_ms)
        case "every":
            step = _step(trigger)
            return anchor_ms + step * max((after_ms - anchor_ms) // step + 1, 1)
        case "at":
            return trigger.at_ms if trigger.at_ms > after_ms else None
        case "boot":
            return None


def late_ms(occurrence_ms: int, now_ms: int) -> int:
    """How late an occurrence is when it is admitted now; the label its Run carries."""
    return max(now_ms - occurrence_ms, 0)


def settle(trigger: TriggerSpec, cursor_ms: int, now_ms: int, anchor_ms: int) -> Settlement:
    """Decide about every occurrence in (cursor, now] by the trigger's ``missed`` policy.

    The newest one, if late by at most ``LATE_MS``, is on time and always due. Otherwise ``skip`` admits none,
    ``latest`` the newest, ``all`` the N newest (an on-time one counts); the rest become one Skip. Nobody
    walks through what is skipped: the work grows with the days passed and with N, not with the occurrences.
    """
    return _settle(trigger, cursor_ms, now_ms, anchor_ms, "missed")


def supersede(trigger: TriggerSpec, cursor_ms: int, now_ms: int, anchor_ms: int) -> Settlement:
    """Settle the old revision to the end when an edit is published at ``now_ms``.

    Occurrences it still owes are due as in :func:`settle`, the others leave ``superseded`` rows. The new
    revision starts strictly after the settlement's ``cursor_ms`` (``next_ms`` is ``None``: the old one has no
    next), so that an earlier time of day never fires back.
    """
    skips: list[Skip] = []
    while True:
        part = _settle(trigger, cursor_ms, now_ms, anchor_ms, "superseded")
        skips.extend(part.skips)
        if not part.more:
            return Settlement(part.due, tuple(skips), part.cursor_ms, None)
        cursor_ms = part.cursor_ms


def _settle(trigger: TriggerSpec, cursor: int, now: int, anchor: int, reason: SkipReason) -> Settlement:
    first = first_after(trigger, cursor, anchor)
    if first is None or first > now:
        return Settlement((), (), max(cursor, now), first)
    if now - first > REACH_MS:
        return _skip_ancient(trigger, first, now, anchor, reason)
    total = _count(trigger, cursor, now, anchor)
    # One more than can be due: it is the last of the skipped ones.
    tail = _newest(trigger, cursor, now, anchor, _keep(trigger) + 2)
    keep = max(_keep(trigger), 1 if now - tail[-1] <= LATE_MS else 0)
    due = tail[max(len(tail) - keep, 0) :]
    skipped = total - len(due)
    skips = (Skip(first, tail[len(tail) - len(due) - 1], skipped, reason),) if skipped else ()
    return Settlement(due, skips, now, first_after(trigger, now, anchor))


def _skip_ancient(trigger: TriggerSpec, first: int, now: int, anchor: int, reason: SkipReason) -> Settlement:
    """Skip, whatever the policy, occurrences late by more than ``REACH_MS``: the clock was wrong."""
    end = min(first + REACH_MS, now - REACH_MS)
    last = _newest(trigger, first - 1, end, anchor, 1)[-1]
    skip = Skip(first, last, _count(trigger, first - 1, end, anchor), reason)
    return Settlement((), (skip,), end, first_after(trigger, end, anchor), more=True)


def _keep(trigger: TriggerSpec) -> int:
    """How many passed occurrences the policy admits."""
    match trigger.missed.kind:
        case "skip":
            return 0
        case "latest":
            return 1
        case "all":
            return min(max(trigger.missed.limit, 0), MISSED_ALL)


def _count(trigger: TriggerSpec, after: int, until: int, anchor: int) -> int:
    """How many occurrences lie in (after, until]; there is at least one."""
    match trigger.kind:
        case "cron":
            return cron.parse(trigger.expr, trigger.zone).count(after, until)
        case "every":
            step = _step(trigger)
            return (until - anchor) // step - max((after - anchor) // step, 0)
        case _:
            return 1


def _newest(trigger: TriggerSpec, after: int, until: int, anchor: int, size: int) -> tuple[int, ...]:
    """The newest ``size`` occurrences in (after, until], oldest first; there is at least one."""
    match trigger.kind:
        case "cron":
            return cron.parse(trigger.expr, trigger.zone).newest(after, until, size)
        case "every":
            step = _step(trigger)
            last = (until - anchor) // step
            size = min(size, _count(trigger, after, until, anchor))
            return tuple(anchor + step * k for k in range(last - size + 1, last + 1))
        case _:
            return (trigger.at_ms,)


def _step(trigger: TriggerSpec) -> int:
    if trigger.every_ms < EVERY_MIN_MS:
        raise Damaged("trigger_damaged", f"trigger {trigger.id!r} repeats every {trigger.every_ms} ms")
    return trigger.every_ms
