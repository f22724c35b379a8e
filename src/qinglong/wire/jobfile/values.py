"""Readers of single values: texts, names, choices, numbers, durations, paths. Nothing is converted silently."""

from __future__ import annotations

import re
from pathlib import PurePosixPath
from typing import Final, TypeVar

from qinglong.domain import durations
from qinglong.errors import Invalid
from qinglong.limits import DURATION_MS, NAME_CHARS, VALUE_BYTES
from qinglong.wire.jobfile.nodes import Scalar
from qinglong.wire.jobfile.problems import is_name, one_of, quoted, suggestion
from qinglong.wire.jobfile.reading import Cursor

TEXT_BYTES: Final = VALUE_BYTES - 1
"""Longest text: execve counts the closing NUL byte."""

Choice = TypeVar("Choice", bound=str)

_STRANGE: Final = re.compile("[^A-Za-z0-9_.-]+")
_WHOLE: Final = re.compile("-?(0|[1-9][0-9]{0,17})")
_NUMBER: Final = re.compile(r"-?[0-9]{0,18}\.?[0-9]{1,18}")


def text(at: Cursor, *, least: int = 0, most: int = TEXT_BYTES) -> str:
    """A text exactly as written, ``least`` to ``most`` UTF-8 bytes."""
    node = at.node
    if not isinstance(node, Scalar) or node.null:
        at.wrong_kind("a text")
        return ""
    try:
        size = len(node.text.encode())
    except UnicodeEncodeError:
        at.problem("character", "holds half a surrogate pair", "remove it: no program can receive it")
        return ""
    if size < least:
        at.problem("no_value", "is empty")
    elif size > most:
        message = f"is {size} bytes long, more than the {most} allowed"
        at.problem("too_long", message, "shorten it, or keep it in a file of its own")
    elif "\0" in node.text:
        at.problem("character", "holds a NUL byte", "remove it: no program can receive it")
    return node.text


def name(at: Cursor, written: str, what: str, *, at_key: bool = False) -> str:
    """Check a name of a ``what``; ``at_key`` when it stands as a key."""
    if is_name(written):
        return written
    if not written:
        reason = "is empty"
    elif len(written) > NAME_CHARS:
        reason = f"has {len(written)} characters, more than the {NAME_CHARS} allowed"
    else:
        strange = _STRANGE.search(written)
        reason = f"holds {quoted(strange[0])}" if strange else f"begins with {written[0]!r}"
    mended = _STRANGE.sub("-", written[:NAME_CHARS]).strip("_.-")
    remedy = "use A-Z a-z 0-9 _ . -, beginning with a letter or digit"
    remedy = f"{remedy}, as {mended}" if mended else remedy
    at.problem("name", f"the {what} name {quoted(written)} {reason}", remedy, at_key=at_key)
    return written


def choice(at: Cursor, options: tuple[Choice, ...], *, forms: str = "") -> Choice:
    """One of ``options``, as written; ``forms`` names the mapping forms that are also allowed."""
    wanted = one_of((*options, forms) if forms else options)
    if not isinstance(at.node, Scalar) or at.node.null:
        at.wrong_kind(wanted)
        return options[0]
    for option in options:
        if at.node.text == option:
            return option
    close = suggestion(at.node.text, options)
    remedy = f"did you mean {close}?" if close else f"write {wanted}"
    at.problem("choice", f"{quoted(at.node.text)} is not {wanted}", remedy)
    return options[0]


def integer(at: Cursor, least: int, most: int) -> int:
    """A whole number without quotes, ``least`` to ``most``."""
    written = _plain(at, "a whole number")
    if written is None:
        return least
    if not _WHOLE.fullmatch(written):
        at.problem("number", f"{quoted(written)} is not a whole number")
        return least
    if not least <= int(written) <= most:
        remedy = f"write a number from {least} to {most}"
        at.problem("number", f"{int(written)} is not within {least} and {most}", remedy)
    return int(written)


def number(at: Cursor, least: float, most: float) -> float:
    """A decimal number without quotes, ``least`` to ``most``."""
    written = _plain(at, "a number")
    if written is None:
        return least
    if not _NUMBER.fullmatch(written):
        at.problem("number", f"{quoted(written)} is not a number")
        return least
    value = float(written)
    if not least <= value <= most:
        remedy = f"write a number from {least:g} to {most:g}"
        at.problem("number", f"{written} is not within {least:g} and {most:g}", remedy)
    return value


def _plain(at: Cursor, wanted: str) -> str | None:
    if not isinstance(at.node, Scalar) or at.node.null:
        at.wrong_kind(wanted)
        return None
    if not at.node.plain:
        at.problem("number", f"needs {wanted}, not a quoted text", "remove the quotes")
        return None
    return at.node.text


def duration(at: Cursor, least_ms: int = 1, most_ms: int = DURATION_MS) -> int:
    """A duration in milliseconds."""
    if not isinstance(at.node, Scalar) or at.node.null:
        at.wrong_kind("a duration")
        return least_ms
    try:
        return durations.parse(at.node.text, least_ms=least_ms, most_ms=most_ms)
    except Invalid as error:
        at.invalid(error)
        return least_ms


def path(at: Cursor, folder: str) -> str:
    """An absolute path; a relative one counts from ``folder``. ``~`` and variables are not expanded."""
    written = text(at, least=1)
    if written.startswith(("~", "$")):
        message = f"{quoted(written)} is taken literally: ~ and variables are not expanded here"
        at.problem("path", message, "write the whole path, or one relative to the job file's folder")
    return str(PurePosixPath(folder, written))
