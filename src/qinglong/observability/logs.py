"""Logging with the standard library: one JSON object a line, or lines for people.

Secrets never reach a log: what ``conceal`` names and whatever stands after ``Bearer`` is blotted out of each
finished line, so that no message, argument, extra field or traceback can carry it. Neither form lets a
message forge a second line or drive a terminal.
"""

from __future__ import annotations

import json as jsonlib
import logging
import re
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any, Final, TextIO

from qinglong.limits import KIB

_OWN: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName", "color_message"}
_BEARER: Final = re.compile(r"(?i)(bearer\s+)[^\s\"',]{4,}")
_UNPRINTABLE: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
_BLOT: Final = "[concealed]"
_MESSAGE_CHARS: Final = 8 * KIB
_TRACE_CHARS: Final = 32 * KIB


class _Handler(logging.StreamHandler[TextIO]):
    """Ours, so that configuring twice replaces it and leaves others alone."""


def configure(*, json: bool, level: int | str, stream: TextIO, conceal: Iterable[str] = ()) -> None:
    """Send every logger's records of at least ``level`` to ``stream``; again: replaces the earlier settings.

    ``conceal``: secrets of this process that must not appear. Raises ``ValueError`` for an unknown level.
    """
    handler = _Handler(stream)
    handler.setFormatter(JsonFormatter(conceal) if json else HumanFormatter(conceal))
    root = logging.getLogger()
    root.setLevel(level)
    for old in root.handlers[:]:
        if isinstance(old, _Handler):
            root.removeHandler(old)
    root.addHandler(handler)


class _Formatter(logging.Formatter):
    def __init__(self, conceal: Iterable[str]) -> None:
        super().__init__()
        self._secrets = tuple(secret for secret in conceal if secret)

    def blot(self, line: str) -> str:
        """The line without secrets."""
        for secret in self._secrets:
            if secret in line:
                line = line.replace(secret, _BLOT)
        return _BEARER.sub(rf"\1{_BLOT}", line)

    def trace(self, record: logging.LogRecord) -> str:
        """The exception and stack of a record, if any; the end matters most, so it is what is kept."""
        parts = []
        if record.exc_info and record.exc_info[0] is not None:
            parts.append(self.formatException(record.exc_info))
        elif record.exc_text:
            parts.append(record.exc_text)
        if record.stack_info:
            parts.append(self.formatStack(record.stack_info))
        return "\n".join(parts)[-_TRACE_CHARS:]


class JsonFormatter(_Formatter):
    """``time`` (ISO 8601 UTC, milliseconds), ``level``, ``logger``, ``message``, ``extra`` fields, ``exception``."""

    def format(self, record: logging.LogRecord) -> str:
        """One line of ASCII JSON, whatever the record holds."""
        line: dict[str, Any] = {
            "time": _moment(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": _message(record),
        }
        for name, value in _extra(record).items():
            line.setdefault(name, value)
        trace = self.trace(record)
        if trace:
            line["exception"] = trace
        return self.blot(_encode(line))


class HumanFormatter(_Formatter):
    """``time level message name=value …``, then the traceback."""

    def format(self, record: logging.LogRecord) -> str:
        """One line, more only for a traceback."""
        extra = "".join(f" {name}={_visible(str(value))}" for name, value in _extra(record).items())
        lines = [f"{_moment(record)} {record.levelname:<7} {_visible(_message(record))}{extra}"]
        lines += (_visible(line) for line in self.trace(record).splitlines())
        return self.blot("\n".join(lines))


def _message(record: logging.LogRecord) -> str:
    try:
        text = record.getMessage()
    except Exception:
        # A wrong placeholder is a fault of ours, but no reason to lose the record.
        text = f"{record.msg} {record.args}"
    return text if len(text) <= _MESSAGE_CHARS else f"{text[:_MESSAGE_CHARS]}…"


def _moment(record: logging.LogRecord) -> str:
    moment = datetime.fromtimestamp(record.created, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _extra(record: logging.LogRecord) -> dict[str, Any]:
    return {name: value for name, value in vars(record).items() if name not in _OWN}


def _encode(line: dict[str, Any]) -> str:
    try:
        return jsonlib.dumps(line, default=str, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        return jsonlib.dumps({name: str(value) for name, value in line.items()})


def _visible(text: str) -> str:
    return _UNPRINTABLE.sub(lambda found: found[0].encode("unicode_escape").decode("ascii"), text)
