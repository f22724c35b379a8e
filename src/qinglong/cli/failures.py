"""How an error ends a command: what a person reads, what a script reads, and the exit code."""

from __future__ import annotations

import json
import os
import sys
import traceback
from itertools import pairwise
from typing import Any, TextIO

import click

from qinglong.cli.codes import USAGE
from qinglong.cli.settings import Settings, use_color
from qinglong.errors import QingLongError


def report(error: Exception, settings: Settings, arguments: list[str]) -> int:
    """Print the error on stderr and return the exit code; a person never sees a traceback unasked."""
    as_json = settings.json or _json_was_asked(arguments)
    if isinstance(error, QingLongError):
        _print(_facts(error), as_json, settings)
        return error.exit_code
    if isinstance(error, click.ClickException):
        return _usage(error, as_json, settings)
    return _unexpected(error, as_json, settings)


def warn(error: QingLongError, settings: Settings) -> None:
    """Print an error without ending the command: one of several objects failed."""
    _print(_facts(error), settings.json, settings)


def _json_was_asked(arguments: list[str]) -> bool:
    """Parsing may have failed before the option was reached."""
    return "--output=json" in arguments or ("--output", "json") in pairwise(arguments)


def _facts(error: QingLongError) -> dict[str, Any]:
    return {
        "code": error.code,
        "message": error.message,
        "place": error.place,
        "remedy": error.remedy,
        "exit_code": error.exit_code,
    }


def _usage(error: click.ClickException, as_json: bool, settings: Settings) -> int:
    code = USAGE
    context = getattr(error, "ctx", None)
    remedy = getattr(error, "remedy", "") or (f"see `{context.command_path} --help`" if context else "")
    if type(error).__name__ == "NoArgsIsHelpError":  # not in every supported click
        click.echo(error.format_message(), err=True)
        return code
    facts = {
        "code": "usage",
        "message": error.format_message(),
        "place": "",
        "remedy": remedy,
        "exit_code": code,
    }
    _print(facts, as_json, settings)
    return code


def _unexpected(error: Exception, as_json: bool, settings: Settings) -> int:
    facts = {
        "code": "unexpected",
        "message": f"{type(error).__name__}: {error}",
        "place": "",
        "remedy": "this is a fault of ql's; run it again with QL_DEBUG=1 to see where, and report it",
        "exit_code": 1,
    }
    if os.environ.get("QL_DEBUG"):
        traceback.print_exception(error)
    _print(facts, as_json, settings)
    return 1


def _print(facts: dict[str, Any], as_json: bool, settings: Settings) -> None:
    if as_json:
        _write(sys.stderr, json.dumps({key: value for key, value in facts.items() if value != ""}))
        return
    red = use_color(sys.stderr, no_color=settings.no_color)
    label = "\x1b[31;1merror:\x1b[0m" if red else "error:"
    lines = [f"{label} {safe(facts['message'])}"]
    lines += [f"{key}: {safe(facts[key])}" for key in ("place", "remedy") if facts[key]]
    _write(sys.stderr, "\n".join(lines))


def safe(text: str) -> str:
    """Text without anything that could drive a terminal; its lines stay."""
    return "".join(letter if letter.isprintable() or letter == "\n" else "�" for letter in text)


def _write(stream: TextIO, text: str) -> None:
    try:
        stream.write(f"{text}\n")
        stream.flush()
    except OSError:
        # Nobody reads stderr; the exit code still says it.
        return


__all__ = ["report", "safe", "warn"]
