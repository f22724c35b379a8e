"""What ``ql up`` was asked for, checked and resolved: the command line makes it, a profile is built from it."""

from __future__ import annotations

from pathlib import Path

import msgspec


class UpOptions(msgspec.Struct, frozen=True):
    """One server on one machine, with its job files."""

    files: tuple[Path, ...]
    """The job files, at least one; they exist."""
    data: Path
    """The data folder, absolute; it is made when it is missing."""
    profile: str
    """``edge`` or ``standalone``."""
    slots: int | None
    """Runs at once on this machine; ``None``: the profile's default."""
    drain_ms: int
    """How long a shutdown waits for running jobs; 0: they go on under their keepers."""
    host: str
    """Address the API listens on."""
    port: int
    """Its port; 0: any free one."""
    json_logs: bool
    """Log one JSON object a line instead of text."""
    color: bool
    """Log in colours."""


__all__ = ["UpOptions"]
