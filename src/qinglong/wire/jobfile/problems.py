"""What is wrong with a job file, where, and what to write instead; every problem of a file at once."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Sequence
from typing import Final

from qinglong.limits import ERRORS_SHOWN, NAME_CHARS
from qinglong.wire.problem import Problem, printable

NAME_PATTERN: Final = f"^[A-Za-z0-9][A-Za-z0-9_.-]{{0,{NAME_CHARS - 1}}}$"

_NAME: Final = re.compile(NAME_PATTERN.removesuffix("$"))
_KEPT: Final = 10 * ERRORS_SHOWN
_SHOWN_CHARS: Final = 60
_CANDIDATES: Final = 700
"""Most names that are compared for one suggestion; more than there are time zones."""


class Problems:
    """Collects the problems of one file; keeps the first thousand and counts the rest (I10)."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.found: list[Problem] = []
        self.uncounted = 0

    @property
    def any(self) -> bool:
        """Has anything been found?"""
        return bool(self.found)

    @property
    def many(self) -> bool:
        """Are there so many that costly help (suggestions) is no longer worth its time?"""
        return len(self.found) >= ERRORS_SHOWN

    def add(self, place: tuple[int, int], field: str, code: str, message: str, remedy: str = "") -> None:
        """Note one problem at ``place`` (line and column from 1, or ``(0, 0)``)."""
        if len(self.found) >= _KEPT:
            self.uncounted += 1
            return
        field, message, remedy = printable(field), printable(message), printable(remedy)
        self.found.append(Problem(self.path, *place, field, code, message, remedy))


def shown(collectors: Iterable[Problems]) -> list[Problem]:
    """The problems of several files, in file order, at most ``ERRORS_SHOWN``; the last says what was cut off."""
    ordered: list[Problem] = []
    hidden = 0
    for one in collectors:
        ordered += sorted(one.found, key=lambda problem: (problem.line, problem.column, problem.field))
        hidden += one.uncounted
    if len(ordered) + hidden <= ERRORS_SHOWN:
        return ordered
    first = ordered[ERRORS_SHOWN - 1]
    count = len(ordered) + hidden - ERRORS_SHOWN + 1
    note = Problem(
        first.path,
        first.line,
        first.column,
        first.field,
        "more_problems",
        f"{count} more problems from here on are not shown",
        "mend the ones above and check again",
    )
    return [*ordered[: ERRORS_SHOWN - 1], note]


def quoted(text: str) -> str:
    """``text`` for a message: in quotes, escaped and shortened."""
    return repr(text) if len(text) <= _SHOWN_CHARS else f"{text[:_SHOWN_CHARS]!r}…"


def is_name(text: str) -> bool:
    """Is it a lawful name of a project, task, trigger, group or label?"""
    return bool(_NAME.fullmatch(text))


def label(key: str) -> str:
    """A key as a part of a dotted field; quoted where it is no plain name."""
    return key if is_name(key) else quoted(key)


def suggestion(text: str, candidates: Sequence[str]) -> str:
    """The candidate that ``text`` is probably a misspelling of; empty when none is close."""
    if len(text) > NAME_CHARS:
        return ""
    folded = {name.casefold(): name for name in candidates[:_CANDIDATES]}
    close = difflib.get_close_matches(text.casefold(), folded, n=1, cutoff=0.6)
    return folded[close[0]] if close else ""


def one_of(names: Iterable[str]) -> str:
    """``a, b or c``."""
    *head, last = names
    return f"{', '.join(head)} or {last}" if head else last
