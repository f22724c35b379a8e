"""Fields that say where and with what around it a command runs."""

from __future__ import annotations

import re
from typing import Final

from qinglong.domain.definitions import Placement, Secret
from qinglong.limits import ENV_PER_TASK, LABELS_PER_TASK, NAME_CHARS
from qinglong.wire.jobfile import nodes, values
from qinglong.wire.jobfile.command import existing
from qinglong.wire.jobfile.problems import quoted
from qinglong.wire.jobfile.reading import Cursor, Field, Found, entries, items, record, require
from qinglong.wire.jobfile.scope import Scope

ENV_PATTERN: Final = "^[A-Za-z_][A-Za-z0-9_]*$"
OWN_PREFIX: Final = "QL_"
SHELL_OWNED: Final = (
    *(
        "IFS",
        "PPID",
        "OPTIND",
        "OPTERR",
        "PS1",
        "PS2",
        "PS4",
        "PWD",
        "OLDPWD",
        "_",
        "LINENO",
        "SHLVL",
        "RANDOM",
    ),
    *(
        "BASH",
        "BASHOPTS",
        "BASHPID",
        "BASH_ARGV0",
        "BASH_COMMAND",
        "BASH_VERSINFO",
        "BASH_VERSION",
        "SHELLOPTS",
    ),
    *("HISTCMD", "COMP_WORDBREAKS", "EPOCHSECONDS", "EPOCHREALTIME", "SRANDOM"),
)
"""Variables that some ``sh`` (dash, bash, busybox) sets itself at start: a value would not arrive unchanged."""

_ENV_NAME: Final = re.compile(ENV_PATTERN.removesuffix("$"))
_ACCOUNT: Final = re.compile(r"[^\s:/\x00-\x1f]+")


def env(at: Cursor, _scope: Scope) -> dict[str, str]:
    """Environment variables; values are the text as written."""
    found: dict[str, str] = {}
    for key, value in entries(at, ENV_PER_TASK):
        _env_name(value, key)
        value.example = f'{key}: ""' if _ENV_NAME.fullmatch(key) else ""
        found[key] = values.text(value, most=max(0, values.TEXT_BYTES - len(key) - 1))
    return found


def _env_name(at: Cursor, key: str) -> None:
    if not _ENV_NAME.fullmatch(key) or len(key) > NAME_CHARS:
        remedy = f"use A-Z a-z 0-9 _, not beginning with a digit, at most {NAME_CHARS} characters"
        at.problem("env_name", f"{quoted(key)} is no name for a variable", remedy, at_key=True)
    elif key.startswith(OWN_PREFIX):
        message = f"names that begin with {OWN_PREFIX} are kept for what every Attempt gets"
        at.problem("reserved_name", message, "choose another name", at_key=True)
    elif key in SHELL_OWNED:
        message = f"{key} is set by the shell itself, so the value would not arrive"
        at.problem("reserved_name", message, "choose another name, or set it inside the command", at_key=True)


def env_file(at: Cursor, scope: Scope) -> tuple[str, ...]:
    """Files of variables, absolute, in the order in which they are read."""
    listed = items(at, ENV_PER_TASK) if isinstance(at.node, nodes.Sequence) else [at]
    return tuple(existing(one, values.path(one, scope.folder), scope) for one in listed)


def _secret_file(at: Cursor, scope: Scope) -> str:
    return values.path(at, scope.folder)


SECRET: Final = {"file": Field(_secret_file, "file: /etc/ql/token")}


def secrets(at: Cursor, scope: Scope) -> dict[str, Secret]:
    """Variables whose values are read from files at launch and never stored."""
    found: dict[str, Secret] = {}
    for key, value in entries(at, ENV_PER_TASK):
        _env_name(value, key)
        source = record(value, SECRET, scope, {"path": "file"})
        if require(value, source, "file", f"write {key[:NAME_CHARS]}: {{file: /etc/ql/token}}"):
            found[key] = Secret(source["file"].value)
    return found


def labels(at: Cursor, _scope: Scope) -> dict[str, str]:
    """The author's own names and texts, for filters and lists."""
    every = entries(at, LABELS_PER_TASK)
    return {values.name(value, key, "label", at_key=True): values.text(value) for key, value in every}


def _accepted(at: Cursor, _scope: Scope) -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for key, value in entries(at, LABELS_PER_TASK):
        values.name(value, key, "capability", at_key=True)
        listed = items(value, LABELS_PER_TASK) if isinstance(value.node, nodes.Sequence) else [value]
        if not listed and isinstance(value.node, nodes.Sequence) and not value.node.items:
            value.problem("no_value", "accepts no value, so no worker would fit", "name at least one value")
        found[key] = tuple(values.text(one, least=1) for one in listed)
    return found


PLACEMENT: Final = {
    "required": Field(_accepted, "required: {arch: [amd64, arm64]}"),
    "preferred": Field(_accepted, "preferred: {disk: ssd}"),
}


def placement(at: Cursor, scope: Scope) -> Placement:
    """Which workers may, and which should, run the task."""
    found: dict[str, Found] = record(at, PLACEMENT, scope, {"requires": "required", "prefers": "preferred"})
    return Placement(**{name: field.value for name, field in found.items()})


def user(at: Cursor, _scope: Scope) -> str:
    """The name of the account that runs the command."""
    written = values.text(at, least=1, most=NAME_CHARS)
    if written and (not _ACCOUNT.fullmatch(written) or written.isdigit()):
        remedy = "write the name as in /etc/passwd, not its number"
        at.problem("user", f"{quoted(written)} is no account name", remedy)
    return written


def cwd(at: Cursor, scope: Scope) -> str:
    """The folder in which the command starts, absolute."""
    return values.path(at, scope.folder)


def notes(at: Cursor, _scope: Scope) -> str:
    """Free text for people."""
    return values.text(at)
