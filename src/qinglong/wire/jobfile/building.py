"""Makes definitions so that the same meaning always gets the same digest."""

from __future__ import annotations

import functools
from typing import Any, TypeVar

import msgspec

Kind = TypeVar("Kind", bound=msgspec.Struct)


def build(kind: type[Kind], /, **given: Any) -> Kind:
    """``kind(**given)`` without what equals the default: a default that is spelt out is no new revision.

    The encoder leaves out a nested default only when it is the very same object.
    """
    defaults = _defaults(kind)
    return kind(**{name: value for name, value in given.items() if value != defaults.get(name, _NONE)})


_NONE = object()


@functools.cache
def _defaults(kind: type[msgspec.Struct]) -> dict[str, Any]:
    return {field.name: field.default for field in msgspec.structs.fields(kind)}
