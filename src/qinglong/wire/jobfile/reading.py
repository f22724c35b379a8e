"""Reads typed values out of the tree, noting every problem with its place and going on.

Each reader returns a value of its type in any case: after a problem the whole file set is refused, so what
stands in for a bad value is never used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from qinglong.errors import Invalid
from qinglong.wire.jobfile import nodes
from qinglong.wire.jobfile.nodes import Node, Scalar
from qinglong.wire.jobfile.problems import Problems, label, quoted, suggestion


class Cursor:
    """One value of the file: the dotted field that it fills, an example of how it is written, its key."""

    __slots__ = ("example", "field", "key", "node", "problems")

    def __init__(
        self, node: Node, field: str, problems: Problems, example: str = "", key: Node | None = None
    ) -> None:
        self.node = node
        self.field = field
        self.problems = problems
        self.example = example
        self.key = key or node

    def problem(self, code: str, message: str, remedy: str = "", *, at_key: bool = False) -> None:
        """Note a problem at this value, or at the key before it."""
        place = self.key.place if at_key else self.node.place
        self.problems.add(place, self.field, code, message, remedy or self._hint())

    def invalid(self, error: Invalid) -> None:
        """Note what a parser of the domain refused."""
        self.problem(error.code, error.message, error.remedy)

    def under(self, key: Node, name: str, node: Node, example: str = "") -> Cursor:
        """The value of key ``name`` in this mapping."""
        field = f"{self.field}.{label(name)}" if self.field else label(name)
        return Cursor(node, field, self.problems, example or self.example, key)

    def wrong_kind(self, wanted: str) -> None:
        """Note that the value is of another kind; silent where a problem is noted already."""
        if type(self.node) is Node:
            return
        if isinstance(self.node, Scalar) and self.node.null:
            hint = f"write it like {self.example}" if self.example else "give it one"
            self.problem("no_value", "has no value", f"{hint}, or remove the line")
            return
        self.problem("wrong_kind", f"needs {wanted}, not {_kind(self.node)}")

    def _hint(self) -> str:
        return f"write it like {self.example}" if self.example else "see the reference of the job file"


Reader = Callable[[Cursor, Any], Any]


class Field(NamedTuple):
    """A key that a mapping may have: its reader, given the scope, and an example of it."""

    read: Reader
    example: str


class Found(NamedTuple):
    """A field that the file gives: where, and its value."""

    at: Cursor
    value: Any


def _kind(node: Node) -> str:
    if isinstance(node, Scalar):
        return f"the text {quoted(node.text)}"
    return "a list" if isinstance(node, nodes.Sequence) else "a mapping"


def record(at: Cursor, fields: Mapping[str, Field], scope: Any, hints: Mapping[str, str]) -> dict[str, Found]:
    """The known fields of a mapping; unknown ones are refused, ``x-*`` keys are the author's own.

    ``hints`` says what to write instead of names that other tools use.
    """
    if not isinstance(at.node, nodes.Mapping):
        at.wrong_kind("a mapping")
        return {}
    found: dict[str, Found] = {}
    for key, (key_node, node) in at.node.entries.items():
        if key in fields:
            inner = at.under(key_node, key, node, fields[key].example)
            found[key] = Found(inner, fields[key].read(inner, scope))
        elif not key.startswith("x-"):
            _unknown(at.under(key_node, key, node), key, fields, hints)
    return found


def later(at: Cursor, _scope: Any) -> Cursor:
    """Reader of a field that can only be read once others are known."""
    return at


def unsupported(at: Cursor, _scope: Any) -> None:
    """Reader of a field that belongs to the language but not to this version."""
    at.problem("unsupported", "is not supported by this version yet", "remove it for now", at_key=True)


def _unknown(at: Cursor, key: str, fields: Iterable[str], hints: Mapping[str, str]) -> None:
    names = sorted(fields)
    close = hints.get(key) or ("" if at.problems.many else suggestion(key, names))
    remedy = f"did you mean {close}?" if close in names else close
    if not remedy:
        remedy = f"known here: {', '.join(names)}; keys of your own begin with x-"
    at.problem("unknown_field", f"there is no field {quoted(key)} here", remedy, at_key=True)


def require(at: Cursor, found: Mapping[str, Found], name: str, remedy: str) -> bool:
    """Note it when a required field is missing."""
    if name in found or type(at.node) is not nodes.Mapping:
        return name in found
    at.under(at.key, name, at.node).problem("missing_field", f"{name} is missing", remedy, at_key=True)
    return False


def entries(at: Cursor, most: int) -> list[tuple[str, Cursor]]:
    """Keys and values of a mapping whose keys are the author's; at most ``most``."""
    if not isinstance(at.node, nodes.Mapping):
        at.wrong_kind("a mapping")
        return []
    every = at.node.entries
    if not _few(at, len(every), most):
        return []
    return [(key, at.under(key_node, key, node)) for key, (key_node, node) in every.items()]


def items(at: Cursor, most: int) -> list[Cursor]:
    """The values of a list; at most ``most``."""
    if not isinstance(at.node, nodes.Sequence):
        at.wrong_kind("a list")
        return []
    if not _few(at, len(at.node.items), most):
        return []
    every = enumerate(at.node.items)
    return [Cursor(node, f"{at.field}[{index}]", at.problems, at.example) for index, node in every]


def _few(at: Cursor, count: int, most: int) -> bool:
    if count <= most:
        return True
    at.problem("too_many", f"has {count} entries, more than the {most} allowed", f"keep at most {most}")
    return False
