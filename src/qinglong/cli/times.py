"""Moments and durations as a command prints them: short and local on a terminal, ISO 8601 elsewhere."""

from __future__ import annotations

from datetime import UTC, datetime

from qinglong.domain.durations import parse
from qinglong.domain.story_words import lasting, moment
from qinglong.errors import Invalid
from qinglong.limits import SECOND


def local(at_ms: int) -> datetime:
    """The moment in this machine's zone; moments that no calendar has become its nearest end."""
    seconds = min(max(at_ms / SECOND, 0.0), 253_402_200_000.0)
    return datetime.fromtimestamp(seconds, UTC).astimezone()


def iso(at_ms: int | None) -> str:
    """Local ISO 8601 with its offset, to the second; empty for no moment."""
    return "" if at_ms is None else local(at_ms).isoformat(timespec="seconds")


def iso_utc(at_ms: int | None) -> str:
    """ISO 8601 in UTC, to the second; empty for no moment."""
    return "" if at_ms is None else moment(at_ms)


def human(at_ms: int | None, now_ms: int) -> str:
    """``12:03:05, 5m ago``; with the date when it is another day; empty for no moment."""
    if at_ms is None:
        return ""
    at, today = local(at_ms), local(now_ms)
    shape = "%H:%M:%S" if at.date() == today.date() else "%d %b %H:%M"
    if at.year != today.year:
        shape = "%Y-%m-%d %H:%M"
    apart = at_ms - now_ms
    distance = f"in {lasting(apart)}" if apart > 0 else f"{lasting(-apart)} ago"
    return f"{at.strftime(shape)}, {distance}"


def took(start_ms: int | None, end_ms: int | None) -> str:
    """How long something lasted; empty when it has no beginning or no end."""
    return "" if start_ms is None or end_ms is None else lasting(end_ms - start_ms)


def since(text: str, now_ms: int) -> int:
    """The moment that ``--since`` means: a duration back from now (``2h``), or a date or time in ISO 8601.

    A time without an offset is local. Raises ``Invalid``.
    """
    try:
        return now_ms - parse(text)
    except Invalid as error:
        if not text[:4].isdigit():
            raise
        try:
            return int(datetime.fromisoformat(text).astimezone().timestamp() * SECOND)
        except (ValueError, OverflowError, OSError):
            remedy = "write a duration, as 2h, or a time, as 2026-11-30 or 2026-11-30T12:00:00+01:00"
            raise Invalid(error.code, f"{text[:64]!r} is no time", place="--since", remedy=remedy) from None


__all__ = ["human", "iso", "iso_utc", "local", "since", "took"]
