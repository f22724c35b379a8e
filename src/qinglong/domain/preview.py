"""The next fires of a schedule, as a person reads them: the same engine that the scheduler uses.

Where clocks change, rows simply show their offsets: a time that comes twice stands there twice, with both
(design section 11).
"""

from __future__ import annotations

from itertools import islice

import msgspec

from qinglong.domain import cron
from qinglong.domain.zone import load_zone, wall_text
from qinglong.limits import LIST_CAP, SECOND


class PreviewRow(msgspec.Struct, frozen=True):
    """One fire: UTC milliseconds, and the zone's wall clock as ISO 8601 with its offset."""

    fire_ms: int
    local: str


def preview(expr: str, zone: str, after_ms: int, count: int) -> list[PreviewRow]:
    """The first ``count`` fires strictly after ``after_ms``; ``count`` is cut to 0…``LIST_CAP``.

    Raises ``Invalid`` as ``cron.parse`` does.
    """
    fires = cron.parse(expr, zone).fires(after_ms)
    where = load_zone(zone)
    return [
        PreviewRow(fire, wall_text(where, fire // SECOND))
        for fire in islice(fires, min(max(count, 0), LIST_CAP))
    ]


__all__ = ["PreviewRow", "preview"]
