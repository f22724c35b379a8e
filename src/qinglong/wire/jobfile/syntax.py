"""YAML's own complaints in words that say what to change."""

from __future__ import annotations

import re
from typing import Final

Complaint = tuple[tuple[int, int], str, str, str, str]
"""Arguments of ``Problems.add``: place, field, code, message, remedy."""

_FORBIDDEN: Final = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""What YAML 1.2 section 5.1 does not allow to stand in a file unescaped."""

_REMEDIES: Final = (
    ("mapping values are not allowed", 'indent it like its neighbours; a value that holds ": " needs quotes'),
    ("expected alphabetic or numeric", 'a value that begins with * or & needs quotes, as "*/5 * * * *"'),
    ("cannot start any token", "a value that begins with @, ` or % needs quotes"),
    ("unexpected end of stream", "close the quotes that are opened here"),
    ("unknown escape", r"inside double quotes write \\ for a backslash, or use single quotes"),
    ("',' or '", "close the bracket that is opened here, or put a comma between the parts"),
    ("expected ':'", "put a colon and a space after the name"),
    ("maximum nesting", "a job file needs about six levels"),
    ("expected key", "indent it like its neighbours, with spaces"),
    ("expected '-'", "indent it like its neighbours, with spaces; list items begin with a dash"),
)
_OPENERS: Final = (
    *("while scanning a quoted", "while parsing a quoted", "while parsing a flow"),
    *("while scanning an alias", "while scanning an anchor"),
)
"""Contexts whose beginning is the better place than the point where the parser gave up."""


def forbidden_character(text: str) -> Complaint | None:
    """The first character that YAML does not allow, as NUL, an escape or half a surrogate pair."""
    found = _FORBIDDEN.search(text)
    if not found:
        return None
    before = text[: found.start()]
    place = (before.count("\n") + 1, found.start() - before.rfind("\n"))
    character = ord(found[0])
    message = f"the character U+{character:04X} may not stand in a job file"
    if character == 0:
        return place, "", "character", message, "remove it: no value can hold a NUL byte"
    remedy = f'remove it, or write it inside double quotes as "\\u{character:04x}"'
    return place, "", "character", message, remedy


def explain(error: Exception, text: str) -> Complaint:
    """Where the YAML breaks, why, and what usually mends it."""
    problem = str(getattr(error, "problem", None) or "it cannot be read")
    mark = getattr(error, "problem_mark", None)
    opened = str(getattr(error, "context", None) or "").startswith(_OPENERS)
    if opened and "escape" not in problem and getattr(error, "context_mark", None):
        mark = getattr(error, "context_mark", None)
    if mark is None:
        return (0, 0), "", "syntax", f"this is not YAML: {problem}", "check it with a YAML linter"
    place = (mark.line + 1, mark.column + 1)
    return place, "", "syntax", f"this is not YAML: {problem}", _remedy(problem, text, mark.line)


def _remedy(problem: str, text: str, line: int) -> str:
    lines = text.split("\n")
    written = lines[line] if line < len(lines) else ""
    if "\t" in written[: len(written) - len(written.lstrip())]:
        return "indent with spaces: YAML does not allow tabs there"
    for part, remedy in _REMEDIES:
        if part in problem:
            return remedy
    return "check the indentation and the quotes of this line and the one above"
