"""One thing that is wrong with a job file: what its reader says, apart from the reader."""

from __future__ import annotations

import msgspec

from qinglong.domain.definitions import FileSet


class Problem(msgspec.Struct, frozen=True, omit_defaults=True):
    """One thing that is wrong with a job file."""

    path: str
    """The file, as it was named."""
    line: int
    """From 1; 0 when the file as a whole is meant."""
    column: int
    """From 1, in characters; 0 when the file as a whole is meant."""
    field: str
    """Dotted place in the file, as ``tasks.backup.retry.when[2]``; empty for the file as a whole."""
    code: str
    """Stable name of the kind of problem."""
    message: str
    remedy: str = ""

    def __str__(self) -> str:
        """``path:line:column: field: message — remedy``, the form that editors and terminals link."""
        path = printable(self.path)
        place = f"{path}:{self.line}:{self.column}" if self.line else path
        field = f"{self.field}: " if self.field else ""
        remedy = f" — {self.remedy}" if self.remedy else ""
        return f"{place}: {field}{self.message}{remedy}"


class Reading(msgspec.Struct, frozen=True):
    """What came of reading job files: a file set, or every problem."""

    files: FileSet | None
    problems: tuple[Problem, ...]


def printable(text: str) -> str:
    """``text`` in one line, without anything that could drive a terminal."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
