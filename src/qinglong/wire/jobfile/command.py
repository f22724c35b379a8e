"""The field ``run``: what is executed."""

from __future__ import annotations

from typing import Any, Final

from qinglong.domain.definitions import Command
from qinglong.limits import VALUE_BYTES
from qinglong.wire.jobfile import nodes, values
from qinglong.wire.jobfile.reading import Cursor, Field, Found, items, record, require
from qinglong.wire.jobfile.scope import Scope

_ARGS: Final = VALUE_BYTES
"""More arguments than fit into one execve anyway."""


def _script(at: Cursor, scope: Scope) -> str:
    return existing(at, values.path(at, scope.folder), scope)


def _args(at: Cursor, _scope: Scope) -> tuple[str, ...]:
    return tuple(values.text(item) for item in items(at, _ARGS))


SCRIPT: Final = {
    "script": Field(_script, "script: fetch.py"),
    "args": Field(_args, "args: [--all]"),
}


def existing(at: Cursor, path: str, scope: Scope) -> str:
    """``path``; a problem when it can be looked up and nothing is there."""
    if scope.file_exists is not None and not at.problems.many and not scope.file_exists(path):
        remedy = "mend the path; a relative one counts from the job file's folder"
        at.problem("no_such_file", f"there is no file {path}", remedy)
    return path


def run(at: Cursor, scope: Scope) -> Command:
    """A shell text, a program with its arguments, or a script file with its arguments."""
    if isinstance(at.node, nodes.Mapping):
        found = record(at, SCRIPT, scope, {"file": "script", "path": "script", "arguments": "args"})
        require(at, found, "script", "write {script: fetch.py}")
        return Command("script", script=_value(found, "script", ""), args=_value(found, "args", ()))
    if isinstance(at.node, nodes.Sequence):
        return _argv(at)
    text = values.text(at, least=1)
    if text and not text.strip():
        at.problem("no_value", "holds nothing but spaces")
    return Command("text", text=text)


def _argv(at: Cursor) -> Command:
    words = items(at, _ARGS)
    if not words:
        at.problem("no_value", "names no program", 'write it like run: [rsync, -a, "/srv/", "/backup/"]')
    return Command(
        "argv", argv=tuple(values.text(word, least=1 - min(index, 1)) for index, word in enumerate(words))
    )


def shell(at: Cursor, _scope: Scope) -> str:
    """The shell of a text."""
    return values.choice(at, ("sh", "bash"))


def _value(found: dict[str, Found], name: str, otherwise: Any) -> Any:
    return found[name].value if name in found else otherwise
