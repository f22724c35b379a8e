"""A schedule in plain English.

cronsim's explainer does the grammar. Three things are put right first, because the words are what a person
trusts: two day fields are joined by "or" where the schedule means it (crontab(5): both are restricted and
neither starts with ``*``); a step that does not divide its range is written out (``*/40`` minutes are 0 and
40); and ordinals end as English ones do.
"""

from __future__ import annotations

import re
from typing import Final

from cronsim.explain import Expression

_RANGES: Final = (range(60), range(60), range(24), range(1, 32), range(1, 13), range(7))
_LISTED: Final = 12
"""Most values that are written out."""
_ALL_DAYS: Final = ({"1-31"}, {"0-7", "1-7", "0-6"})
_NTH = re.compile(r"\b(\d*?)(1?\d)th\b")
_SUFFIX: Final = {"1": "st", "2": "nd", "3": "rd"}


def words(fields: tuple[str, ...]) -> str:
    """One sentence without a full stop; ``fields`` are six valid ones, in capitals."""
    either = not fields[3].startswith("*") and not fields[5].startswith("*")
    if either and (fields[3] in _ALL_DAYS[0] or fields[5] in _ALL_DAYS[1]):
        # One of two alternatives is every day.
        fields, either = (*fields[:3], "*", fields[4], "*"), False
    text = _Words([_spell(field, values) for field, values in zip(fields, _RANGES, strict=True)], either)
    said = (
        text.explain().replace("day of month", "day of the month").replace("day of week", "day of the week")
    )
    return _NTH.sub(lambda found: f"{found[1]}{found[2]}{_SUFFIX.get(found[2], 'th')}", said)


def _spell(field: str, values: range) -> str:
    """The same field, with steps such as ``*/40`` written as lists."""
    return ",".join(_spell_term(term, values) for term in field.split(","))


def _spell_term(term: str, values: range) -> str:
    star, slash, step = term.partition("/")
    if star != "*" or not slash or int(step) == 1:
        return term
    chosen = values[:: int(step)]
    even = len(values) % int(step) == 0 and len(values) != 31
    return term if even or len(chosen) > _LISTED else ",".join(map(str, chosen))


class _Words(Expression):
    def __init__(self, parts: list[str], either: bool) -> None:
        super().__init__(parts)
        self.day_and = not either

    def translate_date(self, allow_every_day: bool) -> str:
        if self.day_and:
            return super().translate_date(allow_every_day)
        month = "" if self.month.star else f"{self.month}, "
        return f"{month}{self.day} or {self.dow}"
