"""Durations as people write them: ``10s``, ``1h30m``, ``500ms``, ``2d``. In code they are milliseconds.

A bare number is refused on purpose: the same ``30`` means seconds to one reader and minutes to the next.
"""

from __future__ import annotations

import re
from typing import Final

from qinglong.errors import Invalid
from qinglong.limits import DAY, DURATION_MS, HOUR, MINUTE, SECOND

UNITS: Final[dict[str, int]] = {"w": 7 * DAY, "d": DAY, "h": HOUR, "m": MINUTE, "s": SECOND, "ms": 1}
"""Unit to milliseconds, largest first: the order in which they must be written."""

PATTERN: Final = "^(?=[0-9])" + "".join(f"([0-9]{{1,15}}{unit})?" for unit in UNITS) + "$"
"""The grammar as one regular expression, also valid in ECMAScript (the job file's schema publishes it)."""

_WHOLE: Final = re.compile(PATTERN)
_PART: Final = re.compile(r"([0-9]+)([a-z]+)")
_WORDED: Final = re.compile(r"([0-9]{1,9})(?:\.([0-9]{1,3}))?([a-z]*)", re.ASCII)
_WRITTEN_UNITS: Final = ("d", "h", "m", "s", "ms")
_TEXT_CHARS: Final = 64
_NUMBER_CHARS: Final = 9
_WORDS: Final[dict[str, str]] = {
    **dict.fromkeys(("week", "weeks"), "w"),
    **dict.fromkeys(("day", "days"), "d"),
    **dict.fromkeys(("hr", "hrs", "hour", "hours"), "h"),
    **dict.fromkeys(("min", "mins", "minute", "minutes"), "m"),
    **dict.fromkeys(("sec", "secs", "second", "seconds"), "s"),
    **dict.fromkeys(("msec", "msecs", "millisecond", "milliseconds"), "ms"),
}


def parse(text: str, *, least_ms: int = 1, most_ms: int = DURATION_MS) -> int:
    """Milliseconds of ``text``, within ``least_ms`` and ``most_ms`` (both included).

    Raises ``Invalid`` with code ``duration_unreadable``, ``duration_without_unit``, ``duration_too_short`` or
    ``duration_too_long``, and always with a remedy.
    """
    whole = _WHOLE.match(text) if len(text) <= _TEXT_CHARS else None
    if whole is None or text.endswith("\n"):
        raise _unreadable(text)
    total = sum(int(count) * UNITS[unit] for count, unit in _PART.findall(text))
    if total < least_ms:
        least = format_ms(least_ms)
        raise Invalid(
            "duration_too_short",
            f"{text} is too short: the least is {least}",
            remedy=f"write {least} or more",
        )
    if total > most_ms:
        most = format_ms(most_ms)
        raise Invalid(
            "duration_too_long", f"{text} is too long: the most is {most}", remedy=f"write {most} or less"
        )
    return total


def format_ms(duration_ms: int) -> str:
    """``duration_ms`` in the shortest whole units, days at most: ``1h30m``, ``500ms``, ``0s``.

    The inverse of :func:`parse` for every positive duration; negative ones get a minus sign in front.
    """
    if duration_ms == 0:
        return "0s"
    if duration_ms < 0:
        return f"-{format_ms(-duration_ms)}"
    parts = []
    for unit in _WRITTEN_UNITS:
        count, duration_ms = divmod(duration_ms, UNITS[unit])
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts)


def _unreadable(text: str) -> Invalid:
    shown = repr(text[:_TEXT_CHARS])
    if text.isascii() and text.isdigit() and len(text) <= _NUMBER_CHARS:
        return Invalid(
            "duration_without_unit",
            f"{shown} is not a duration: a number needs a unit",
            remedy=f"write {text}s for seconds, {text}m for minutes or {text}h for hours",
        )
    return Invalid("duration_unreadable", f"{shown} is not a duration", remedy=_guess(text))


def _guess(text: str) -> str:
    """What the author probably meant, from ``1.5h``, ``10 seconds``, ``1h 30m`` or ``5MIN``; else the rule."""
    joined = "".join(text[:_TEXT_CHARS].split()).lower()
    if _WHOLE.match(joined):
        return f"write {joined}"
    worded = _WORDED.fullmatch(joined)
    if worded:
        unit = _WORDS.get(worded[3], worded[3])
        if unit in UNITS:
            thousandths = int(worded[1]) * 1000 + int((worded[2] or "").ljust(3, "0"))
            exact, rest = divmod(thousandths * UNITS[unit], 1000)
            if exact and not rest:
                return f"write {format_ms(exact)}"
    return "write numbers with units, largest first, without spaces: 90s, 5m, 1h30m, 2d, 500ms"
