"""From query strings, headers and JSON text to checked structs; every complaint names the field."""

from __future__ import annotations

import re
from typing import Final, TypeVar
from urllib.parse import parse_qsl

import msgspec

from qinglong.api.bounds import QUERY_FIELDS
from qinglong.api.problems import BadField, BadRequest
from qinglong.wire.api import KEY_CHARS

S = TypeVar("S", bound=msgspec.Struct)
_AT: Final = re.compile(r" - at `\$\.?([^`]*)`$")
_NAMED: Final = re.compile(r"^Object (?:contains unknown|missing required) field `([^`]*)`")
_KEY: Final = re.compile(rf"[!-~]{{1,{KEY_CHARS}}}")
_SHOWN: Final = 64


def read_query(raw: bytes, struct: type[S] | None) -> S | None:
    """The query parameters as ``struct``; ``None`` where a route takes none.

    Raises ``BadRequest``: 400 ``query_invalid``, ``parameter_unknown`` or ``parameter_repeated``, 422
    ``parameter_invalid``.
    """
    found = _pairs(raw)
    known = () if struct is None else struct.__struct_fields__
    for name in found:
        if name not in known:
            remedy = f"the parameters are {', '.join(known)}" if known else "this path takes no parameters"
            raise BadField(
                400, "parameter_unknown", "query", name[:_SHOWN], "there is no such parameter", remedy=remedy
            )
    if struct is None:
        return None
    try:
        return msgspec.convert(found, struct, strict=False)
    except msgspec.ValidationError as error:
        field, message = _parts(error)
        raise BadField(422, "parameter_invalid", "query", field, message) from None


def _pairs(raw: bytes) -> dict[str, str]:
    try:
        pairs = parse_qsl(
            raw.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=QUERY_FIELDS
        )
    except ValueError:
        raise BadRequest(400, "query_invalid", "the query string is malformed or too long") from None
    found: dict[str, str] = {}
    for name, value in pairs:
        if name in found:
            raise BadField(400, "parameter_repeated", "query", name[:_SHOWN], "it is given twice")
        found[name] = value
    return found


def read_json(raw: bytes, struct: type[S]) -> S:
    """The body as ``struct``; an empty body is an empty object.

    Raises ``BadRequest``: 400 ``json_malformed``, 422 ``field_invalid``.
    """
    try:
        return msgspec.json.decode(raw or b"{}", type=struct)
    except msgspec.ValidationError as error:
        field, message = _parts(error)
        raise BadField(422, "field_invalid", "body", field, message) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise BadRequest(400, "json_malformed", "the body is not JSON") from None


def read_key(fields: list[str]) -> str:
    """The ``Idempotency-Key``; empty when there is none. Raises ``BadRequest`` 422 ``key_invalid``."""
    if not fields:
        return ""
    if len(fields) > 1 or not _KEY.fullmatch(fields[0]):
        raise BadRequest(
            422,
            "key_invalid",
            f"an idempotency key is 1 to {KEY_CHARS} visible ASCII characters, given once",
            place="header Idempotency-Key",
        )
    return fields[0]


def _parts(error: msgspec.ValidationError) -> tuple[str, str]:
    """(field, message) of a validation error; the library's text is short, stable and shows no value."""
    text = str(error)
    at, named = _AT.search(text), _NAMED.match(text)
    path = at[1] if at else ""
    name = named[1] if named else ""
    return ".".join(filter(None, (path, name)))[:_SHOWN], _AT.sub("", text)
