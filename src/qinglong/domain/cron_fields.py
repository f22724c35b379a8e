"""From the text of a schedule to its six fields, with a clear answer where it is wrong.

The grammar is crontab(5)'s (five fields, lists, ranges, steps, names), with what cronsim adds: a first field
for seconds, ``5/15`` for "from 5 on, each 15th", ``L`` and ``LW`` as days of the month, ``MON#2`` and ``5L``
as days of the week. Macros are expanded here. Source: design section 11.
"""

from __future__ import annotations

from typing import Final

from cronsim import CronSim, CronSimError

from qinglong.domain.zone import as_utc
from qinglong.errors import Invalid

TEXT_CHARS: Final = 1_000
"""Longest schedule; every value of every field written out takes fewer than 600."""

FIELDS: Final = ("second", "minute", "hour", "day-of-month", "month", "day-of-week")

_MACROS: Final = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}

_REMEDIES: Final = {
    "second": "0-59, as in `0`, `*/15` or `10,40`",
    "minute": "0-59, as in `0`, `*/10` or `5,35`",
    "hour": "0-23, as in `3`, `*/4`, `8-18` or `1,13`",
    "day-of-month": "1-31 or L (the last day), as in `1`, `*/10` or `1,15`",
    "month": "1-12 or JAN-DEC, as in `6`, `*/3` or `JAN,JUL`",
    "day-of-week": "0-7 or SUN-SAT (0 and 7 are Sunday), as in `1-5`, `SUN` or `MON#2`",
}

_FIELD_COUNT = "write 5 fields: minute hour day-of-month month day-of-week; or 6, with seconds first"


def split(text: str) -> tuple[str, ...]:
    """The six fields of a schedule, macros expanded, seconds first, in capitals.

    Raises ``Invalid``: ``cron_invalid`` with the field's name, or ``cron_never_fires`` for a date that no
    month has.
    """
    if len(text) > TEXT_CHARS or not text.isascii():
        raise _invalid(text, f"is not plain text of at most {TEXT_CHARS} characters", _FIELD_COUNT)
    parts = _expand(text).split()
    if not parts:
        raise Invalid("cron_invalid", "the schedule is empty", remedy=_FIELD_COUNT)
    if len(parts) not in {5, 6}:
        raise _invalid(text, f"has {len(parts)} field{'' if len(parts) == 1 else 's'}", _FIELD_COUNT)
    fields = tuple(parts) if len(parts) == 6 else ("0", *parts)
    _check(text, fields)
    return tuple(field.upper() for field in fields)


def matcher(fields: tuple[str, ...]) -> CronSim:
    """A cronsim that walks the wall clock, without a zone; ``fields`` come from :func:`split`."""
    return CronSim(" ".join(fields), as_utc(0))


def _check(text: str, fields: tuple[str, ...]) -> None:
    try:
        matcher(fields)
    except CronSimError as error:
        name = str(error).removeprefix("Bad ")
    else:
        return
    if _valid((*fields[:4], "*", fields[5])) and _valid((*fields[:3], "1", *fields[4:])):
        # Day and month are fine, only not together: the 31st of February.
        raise never_fires(text)
    value = fields[FIELDS.index(name)]
    raise _invalid(text, f"has a bad {name} field {value[:40]!r}", _remedy(name, value))


def never_fires(text: str) -> Invalid:
    """The refusal of a schedule that has no next fire, ever."""
    return Invalid(
        "cron_never_fires",
        f"the schedule {text[:80]!r} never fires: no date or time ever matches all its fields",
        remedy="choose a day that the month has and an hour that the time zone has; `L` is a month's last day",
    )


def _expand(text: str) -> str:
    """The five fields behind a macro; any other text as it is."""
    word = text.strip().lower()
    if word == "@reboot":
        raise _invalid(text, "is not a time", "use a trigger with `boot: true` instead")
    if word.startswith("@every"):
        raise _invalid(text, "is not a cron schedule", "use a trigger with `every:`, as in `every: 15m`")
    if word.startswith("@"):
        if word not in _MACROS:
            raise _invalid(text, "is not a known macro", f"known are {', '.join(_MACROS)}")
        return _MACROS[word]
    if word.startswith(("tz=", "cron_tz=")):
        raise _invalid(text, "names a time zone", "put the zone into `timezone:` beside the schedule")
    return text


def _valid(fields: tuple[str, ...]) -> bool:
    try:
        matcher(fields)
    except CronSimError:
        return False
    return True


def _remedy(name: str, value: str) -> str:
    """What to write instead; the usual misunderstandings first."""
    if "?" in value:
        return "write `*` for any value"
    low, dash, high = value.partition("-")
    if dash and low.isdigit() and high.isdigit() and int(low) > int(high):
        return f"a range runs upwards; write a list of two, and each value must be {_REMEDIES[name]}"
    return f"it takes {_REMEDIES[name]}"


def _invalid(text: str, what: str, remedy: str) -> Invalid:
    return Invalid("cron_invalid", f"the schedule {text[:80]!r} {what}", remedy=remedy)
