"""The one cron engine: command line, API, linter and scheduler all ask this module.

cronsim decides which dates and times of day match; this module decides what that means where clocks change:

- a schedule none of whose time fields (second, minute, hour) starts with ``*`` is *fixed*. It fires once for
  each matching wall time: in the first pass when a time comes twice, at the end of the gap when a time is
  left out (several left-out times make one fire). A gap of more than three hours is a skipped calendar day,
  not daylight saving, and makes no fire;
- any other schedule fires at every real instant whose wall time matches: in both passes, never in a gap.

That is Debian cron's rule (cron(8)), with seconds. Given this definition the fires do not depend on where a
search starts, which cronsim's own zone handling does not promise. Source: design section 11.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Final
from zoneinfo import ZoneInfo

from cronsim import CronSim

from qinglong.domain import cron_fields, cron_words
from qinglong.domain.cron_count import count_walls
from qinglong.domain.zone import WINDOW_S, as_utc, load_zone, segment, unseen_wall
from qinglong.limits import CRON_SEARCH_YEARS, SECOND

_YEAR_S: Final = 31_556_952
_SEARCH_S: Final = CRON_SEARCH_YEARS * _YEAR_S
_LAST_S: Final = 7_900 * _YEAR_S
"""No search goes past the year 9870; Python's calendar ends with 9999."""
_SETTLED_S: Final = 4_102_444_800
"""2100-01-01: later than the last single change that any zone's table lists, so that only its yearly rule
is left. A schedule that fires after this moment fires for ever."""
_GAP_S: Final = 3 * 3_600
"""Longest forward change for which Debian cron makes up fixed times (``cron.c``, wake-up kinds)."""


@dataclass(frozen=True, slots=True, eq=False)
class Cron:
    """A schedule in a zone, made by :func:`parse`; immutable, safe to share between threads.

    Fires are whole seconds from 1970-01-01 on, given as UTC milliseconds in integers of any size.
    """

    expr: str
    zone: str
    _zone: ZoneInfo
    _sim: CronSim
    _fixed: bool

    def next_after(self, after_ms: int) -> int | None:
        """The first fire strictly after ``after_ms``; ``None`` if none comes within ``CRON_SEARCH_YEARS``."""
        fire = self._first_from(max(after_ms // SECOND + 1, 0))
        return None if fire is None else fire * SECOND

    def fires(self, after_ms: int) -> Iterator[int]:
        """Every fire after ``after_ms``, strictly increasing; practically endless, so take a slice."""
        fire = self.next_after(after_ms)
        while fire is not None:
            yield fire
            fire = self.next_after(fire)

    def count(self, after_ms: int, until_ms: int) -> int:
        """How many fires lie in (after, until]: by arithmetic, about one step for each matching day."""
        return self._count(max(after_ms // SECOND + 1, 0), until_ms // SECOND + 1)

    def newest(self, after_ms: int, until_ms: int, size: int) -> tuple[int, ...]:
        """The newest ``size`` fires in (after, until] or, if there are fewer, all of them; oldest first.

        About ``size`` searches, however many fires there are.
        """
        first, end = max(after_ms // SECOND + 1, 0), until_ms // SECOND + 1
        start, found = end, 0
        while found < size and start > first:
            start = max(first, end - 2 * (end - start) - 1)
            found = self._count(start, end)
        # The last doubling may have caught a burst: close in until the walk below is short.
        empty = end
        while found > 2 * size and empty - start > 1:
            middle = (start + empty) // 2
            inside = self._count(middle, end)
            if inside >= size:
                start, found = middle, inside
            else:
                empty = middle
        return tuple(islice(self.fires(start * SECOND - 1), found))[-size:]

    def _first_from(self, start: int) -> int | None:
        """The first fire at or after this instant, in seconds."""
        end = min(start + _SEARCH_S, _LAST_S)
        if start >= end:
            return None
        fresh = unseen_wall(self._zone, start)
        while start < end:
            offset, stop = segment(self._zone, start)
            wall = start + offset
            if self._made_up(fresh, wall):
                return start
            match = self._match(max(wall, fresh) if self._fixed else wall)
            if match is None:
                return None
            if match < stop + offset:
                return match - offset
            far = match - offset - WINDOW_S
            if stop - start == WINDOW_S and far > stop:
                # No change near, so nothing repeats; and before `far` nothing matches, whatever the offset.
                start, fresh = far, unseen_wall(self._zone, far)
            else:
                start, fresh = stop, max(fresh, stop + offset)
        return None

    def _made_up(self, fresh: int, wall: int) -> bool:
        """Does a gap that ends here, and left out the walls [fresh, wall), owe a fire?"""
        if not self._fixed or not 0 < wall - fresh <= _GAP_S:
            return False
        match = self._match(fresh)
        return match is not None and match < wall

    def _match(self, wall: int) -> int | None:
        """The first wall second at or after this one that matches all fields; cronsim looks 50 years ahead.

        Dates repeat every 400 years and the rarest (a 29 February on one day of the week) comes at least
        every 40, so that a schedule without a match in 50 years has none at all.
        """
        sim = copy.copy(self._sim)
        sim.dt = as_utc(wall - 1)
        try:
            return int(next(sim).timestamp())
        except (StopIteration, OverflowError, ValueError):
            return None

    def _count(self, start: int, end: int) -> int:
        """How many fires lie in [start, end), in seconds."""
        end = min(end, _LAST_S)
        if start >= end:
            return 0
        total, fresh = 0, unseen_wall(self._zone, start)
        while start < end:
            offset, stop = segment(self._zone, start)
            stop = min(stop, end)
            low, high = start + offset, stop + offset
            if self._fixed:
                # A made-up fire coincides with a regular one at the end of the gap.
                total += self._made_up(fresh, low) and self._match(low) != low
                low = max(low, fresh)
            total += count_walls(self._sim, low, high)
            start, fresh = stop, max(fresh, high)
        return total


@functools.lru_cache(maxsize=1_024)
def parse(expr: str, zone: str) -> Cron:
    """The schedule, checked: what is accepted fires, again and again, from any moment on.

    ``expr`` has 5 fields, 6 with seconds first, or is a macro; ``zone`` is an IANA name. Raises ``Invalid``
    with code ``cron_invalid``, ``cron_never_fires`` or ``zone_unknown``.
    """
    fields = cron_fields.split(expr)
    fixed = not any(field.startswith("*") for field in fields[:3])
    cron = Cron(expr, zone, load_zone(zone), cron_fields.matcher(fields), fixed)
    if cron._first_from(_SETTLED_S) is None:
        raise cron_fields.never_fires(expr)
    return cron


def describe(expr: str) -> str:
    """The schedule in plain English; raises ``Invalid`` like :func:`parse`."""
    return cron_words.words(cron_fields.split(expr))


__all__ = ["Cron", "describe", "parse"]
