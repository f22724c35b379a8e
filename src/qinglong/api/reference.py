"""The reference part of ``docs/api.md``, from the route table and its structs.

``python -m qinglong.api.reference docs/api.md`` writes it; a test holds the committed text against it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import inspect

from qinglong.api.routes import ROUTES
from qinglong.api.table import Route
from qinglong.wire.api import Problem

BEGIN: Final = "<!-- generated from the route table: begin -->"
END: Final = "<!-- generated from the route table: end -->"
_PLAIN: Final[dict[type[inspect.Type], str]] = {
    inspect.AnyType: "any",
    inspect.BoolType: "true or false",
    inspect.FloatType: "number",
    inspect.IntType: "integer",
    inspect.NoneType: "absent",
    inspect.StrType: "text",
}


def refreshed(text: str) -> str:
    """``text`` with its generated part written anew. Raises ``ValueError`` if a mark is missing."""
    before, mark, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not mark or not end:
        raise ValueError("the marks of the generated part are missing")
    return f"{before}{BEGIN}\n\n{generated()}\n{END}{after}"


def generated(routes: tuple[Route, ...] = ROUTES) -> str:
    """The table of routes, their parameters and the fields of every struct, as Markdown."""
    lines = ["| request | permission | | parameters or body | answer |", "|---|---|---|---|---|"]
    lines += (_row(route) for route in routes)
    for title, structs in (("Query parameters", _queries(routes)), ("JSON objects", _bodies(routes))):
        lines += ["", f"### {title}"]
        for struct in structs:
            lines += ["", f"**{struct.__name__}**", "", *_fields(struct)]
    return "\n".join(lines) + "\n"


def _row(route: Route) -> str:
    takes = [part.__name__ for part in (route.query, route.request) if part is not None]
    gives = "text or bytes" if route.response is None else route.response.__name__
    request = f"`{route.method} {route.path}`"
    return f"| {request} | {route.permission} | {route.summary} | {', '.join(takes)} | {gives} |"


def _queries(routes: Iterable[Route]) -> list[type[msgspec.Struct]]:
    return list(dict.fromkeys(route.query for route in routes if route.query is not None))


def _bodies(routes: Iterable[Route]) -> list[type[msgspec.Struct]]:
    """Every struct that stands in a body, also inside others, each once."""
    found: dict[type[msgspec.Struct], None] = {}
    for route in routes:
        for struct in (route.request, route.response):
            if struct is not None:
                found.update(dict.fromkeys(_reached(struct)))
    found[Problem] = None
    return list(found)


def _reached(struct: type[msgspec.Struct]) -> Iterator[type[msgspec.Struct]]:
    yield struct
    for field in _info(struct).fields:
        for inner in _structs(field.type):
            yield from _reached(inner)


def _structs(kind: Any) -> Iterator[type[msgspec.Struct]]:
    if isinstance(kind, inspect.StructType):
        yield kind.cls
    elif isinstance(kind, inspect.UnionType):
        for one in kind.types:
            yield from _structs(one)
    elif isinstance(kind, inspect.VarTupleType):
        yield from _structs(kind.item_type)


def _info(struct: type[msgspec.Struct]) -> inspect.StructType:
    info = inspect.type_info(struct)
    assert isinstance(info, inspect.StructType)
    return info


def _fields(struct: type[msgspec.Struct]) -> list[str]:
    return [
        f"- `{field.encode_name}`: {_words(field.type)}{_default(field)}" for field in _info(struct).fields
    ]


def _default(field: inspect.Field) -> str:
    if field.required:
        return ", required"
    if field.default in (None, "", msgspec.NODEFAULT) or isinstance(field.default, tuple | dict):
        return ""
    return f", default {msgspec.json.encode(field.default).decode()}"


def _words(kind: Any) -> str:
    if isinstance(kind, inspect.UnionType):
        return " or ".join(_words(one) for one in kind.types if not isinstance(one, inspect.NoneType))
    if isinstance(kind, inspect.StructType):
        return kind.cls.__name__
    if isinstance(kind, inspect.VarTupleType):
        return f"list of {_words(kind.item_type)}"
    if isinstance(kind, inspect.DictType):
        return f"object of {_words(kind.value_type)}"
    return _PLAIN[type(kind)] + _range(kind)


def _range(kind: Any) -> str:
    least, most = getattr(kind, "ge", None), getattr(kind, "le", None)
    longest = getattr(kind, "max_length", None)
    if least is not None and most is not None:
        return f" {least}…{most}"
    return f" of at most {longest} characters" if longest else ""


def main() -> None:
    """Refresh the files that are named."""
    for name in sys.argv[1:]:
        path = Path(name)
        path.write_text(refreshed(path.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
