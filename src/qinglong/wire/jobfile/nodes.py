"""The tree of a YAML file: values that still know where they stood and how they were written."""

from __future__ import annotations

from typing import Final, TypeAlias

_NULLS: Final = frozenset(("", "~", "null", "Null", "NULL"))
_NODE_BYTES: Final = 64
"""Rough memory of a node without its text; with it, one budget bounds nodes and text alike."""

Place: TypeAlias = tuple[int, int]
"""Line and column, both from 1."""


class Node:
    """A value of the file. A bare ``Node`` stands for one whose problem is already reported."""

    __slots__ = ("place", "weight")

    def __init__(self, place: Place) -> None:
        self.place = place
        self.weight = _NODE_BYTES
        """Bytes that this value takes once every alias in it is written out; 0 while it is still open."""


class Scalar(Node):
    """A text as written; ``plain`` when it had no quotes, block sign or tag."""

    __slots__ = ("plain", "text")

    def __init__(self, place: Place, text: str, plain: bool) -> None:
        super().__init__(place)
        self.text = text
        self.plain = plain
        self.weight += len(text)

    @property
    def null(self) -> bool:
        """Is it YAML's "no value"?"""
        return self.plain and self.text in _NULLS


class Sequence(Node):
    """A list."""

    __slots__ = ("items",)

    def __init__(self, place: Place) -> None:
        super().__init__(place)
        self.items: list[Node] = []


class Mapping(Node):
    """Keys and values in file order, keys unique; those of a merge (``<<``) follow the own ones."""

    __slots__ = ("entries",)

    def __init__(self, place: Place) -> None:
        super().__init__(place)
        self.entries: dict[str, tuple[Scalar, Node]] = {}
