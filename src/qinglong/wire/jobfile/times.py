"""Zones and local moments of a job file, with the answers that daylight saving needs."""

from __future__ import annotations

import functools
import re
import zoneinfo
from datetime import UTC, datetime, timedelta
from typing import Final

from qinglong.domain.zone import load_zone
from qinglong.errors import Invalid
from qinglong.wire.jobfile import values
from qinglong.wire.jobfile.problems import quoted, suggestion
from qinglong.wire.jobfile.reading import Cursor

MOMENT_PATTERN: Final = (
    r"^[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}(:[0-9]{2})?(Z|[+-][0-9]{2}:[0-9]{2})?$"
)

_MOMENT: Final = re.compile(MOMENT_PATTERN)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_YEARS: Final = range(1970, 9000)
_MOMENT_EXAMPLE: Final = "write it like at: 2027-01-31T09:00, or with an offset as 2027-01-31T09:00+01:00"


def zone(at: Cursor, _scope: object) -> str:
    """An IANA zone name, kept as written; UTC stands in for one that does not exist."""
    written = values.text(at, least=1)
    if not written:
        return "UTC"
    try:
        load_zone(written)
    except Invalid as error:
        close = "" if at.problems.many else _similar_zone(written)
        at.problem(error.code, error.message, f"did you mean {close}?" if close else error.remedy)
        return "UTC"
    return written


def _similar_zone(written: str) -> str:
    known = _zone_names()
    city = written.replace(" ", "_").casefold()
    for name in known:
        if name.casefold().rpartition("/")[2] == city:
            return name
    return suggestion(written, known)


@functools.cache
def _zone_names() -> tuple[str, ...]:
    return tuple(sorted(zoneinfo.available_timezones()))


def moment(at: Cursor, zone_name: str) -> int:
    """A date and time in UTC ms; without an offset it is local to ``zone_name``, where it must exist once."""
    written = values.text(at, least=1)
    if not _MOMENT.fullmatch(written):
        at.problem("moment", f"{quoted(written)} is not a date and time", _MOMENT_EXAMPLE)
        return 0
    try:
        parsed = datetime.fromisoformat(written)
    except ValueError as error:
        at.problem("moment", f"{written} is not in the calendar: {error}", _MOMENT_EXAMPLE)
        return 0
    if parsed.year not in _YEARS:
        at.problem("moment", f"the year {parsed.year} is out of range", f"use {_YEARS[0]} to {_YEARS[-1]}")
        return 0
    if parsed.tzinfo is None:
        parsed = _local(at, parsed, zone_name)
    return (parsed - _EPOCH) // timedelta(milliseconds=1)


def _local(at: Cursor, wall: datetime, zone_name: str) -> datetime:
    """``wall`` in its zone; refused where clocks skip or repeat it."""
    local = wall.replace(tzinfo=load_zone(zone_name))
    shown = wall.isoformat()
    passed = local.astimezone(UTC).astimezone(local.tzinfo)
    if passed.replace(tzinfo=None) != wall:
        message = f"{shown} does not exist in {zone_name}: clocks skip it"
        at.problem(
            "moment_skipped", message, f"write {passed.replace(tzinfo=None).isoformat()}, or add an offset"
        )
    elif local.utcoffset() != local.replace(fold=1).utcoffset():
        message = f"{shown} comes twice in {zone_name}: clocks are set back over it"
        second = local.replace(fold=1).isoformat()
        at.problem(
            "moment_repeated", message, f"write {local.isoformat()} for the first or {second} for the second"
        )
    return local
