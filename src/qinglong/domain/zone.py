"""Time zones as plain arithmetic: instants, wall clocks, and the moments where the offset changes.

An *instant* is UTC seconds since 1970. A *wall second* is what the clock on the wall shows, counted in the
same way as if the wall were in UTC, so that ``wall = instant + offset``. Zones are IANA names, kept as
written. Source: design section 11; the semantics of ``fold`` are PEP 495's.
"""

from __future__ import annotations

import functools
import re
from datetime import UTC, datetime
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from qinglong.errors import Invalid

WINDOW_S: Final = 2 * 86_400
"""How far one look at a zone reaches. No zone has changed its offset twice within so little time since 1970
(the closest pair is 6.9 days apart), and no change is larger than half of it."""

_NAME = re.compile(r"[A-Za-z0-9_+-]{1,32}(?:/[A-Za-z0-9_+-]{1,32}){0,3}")
_LOCAL_ONLY = ("posix/", "right/", "posixrules", "localtime")
"""What some machines keep beside the IANA names: copies, tables with leap seconds, the machine's own zone."""


@functools.lru_cache(maxsize=1_024)
def load_zone(name: str) -> ZoneInfo:
    """The zone with this IANA name; aliases such as ``Asia/Calcutta`` keep the name they were given.

    Raises ``Invalid`` ``zone_unknown`` for everything else, paths and empty names included.
    """
    try:
        if _NAME.fullmatch(name) is None or name.startswith(_LOCAL_ONLY):
            raise ZoneInfoNotFoundError(name)
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise Invalid(
            "zone_unknown",
            f"there is no time zone {name[:64]!r}",
            remedy="use an IANA name as it is spelt there, such as Europe/Berlin or UTC",
        ) from None


def offset_at(zone: ZoneInfo, instant: int) -> int:
    """Seconds east of UTC at this instant."""
    return _seconds(datetime.fromtimestamp(instant, zone))


def segment(zone: ZoneInfo, start: int) -> tuple[int, int]:
    """``(offset, end)``: the offset holds on [start, end), and ``end`` is at most ``WINDOW_S`` away."""
    offset, end = offset_at(zone, start), start + WINDOW_S
    if offset_at(zone, end) == offset:
        return offset, end
    return offset, _change(zone, start, end)


def unseen_wall(zone: ZoneInfo, instant: int) -> int:
    """The first wall second that no clock in the zone has shown before this instant.

    Usually the instant's own. Where clocks were set back it is the end of the repeated stretch; at a spring
    change it is the start of the gap.
    """
    before = datetime.fromtimestamp(instant - 1, zone)
    wall = instant - 1 + _seconds(before)
    if not before.fold:
        return wall + 1
    earlier = _seconds(before.replace(fold=0))
    return _change(zone, wall - earlier, instant - 1) + earlier


def _change(zone: ZoneInfo, low: int, high: int) -> int:
    """The first instant in (low, high] with another offset than at ``low``; the ends must differ."""
    offset = offset_at(zone, low)
    while high - low > 1:
        middle = (low + high) // 2
        if offset_at(zone, middle) == offset:
            low = middle
        else:
            high = middle
    return high


def _seconds(moment: datetime) -> int:
    offset = moment.utcoffset()
    assert offset is not None, "the moment carries a zone"
    return offset.days * 86_400 + offset.seconds


def wall_text(zone: ZoneInfo, instant: int) -> str:
    """ISO 8601 local time with its offset, such as ``2026-11-01T01:30:00-04:00``."""
    return datetime.fromtimestamp(instant, zone).isoformat()


def as_utc(seconds: int) -> datetime:
    """Wall seconds or an instant as a plain calendar moment."""
    return datetime.fromtimestamp(seconds, UTC)
