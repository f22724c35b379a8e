"""What a reader needs to know of the file around its value."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple


class Scope(NamedTuple):
    """The surroundings of every value of one job file."""

    folder: str
    """Absolute; relative paths count from here."""
    zone: str
    """IANA zone of every schedule that names none."""
    groups: Mapping[str, int]
    """Concurrency groups of the whole file set."""
    file_exists: Callable[[str], bool] | None
    """Looks whether a file is there; ``None`` where the tasks run on another machine."""
