"""What ``ql up`` was asked to do."""

from __future__ import annotations

from pathlib import Path

import msgspec


class UpOptions(msgspec.Struct, frozen=True):
    """One process, SQLite: profiles ``edge`` and ``standalone``."""

    files: tuple[Path, ...]
    data: Path
    profile: str = "standalone"
    slots: int | None = None
    """Runs at once; ``None``: the profile's own number."""
    drain_ms: int = 10_000
    """How long an orderly stop waits for running jobs before it leaves them to their keepers."""
    host: str = "127.0.0.1"
    port: int = 5800
    json_logs: bool = False
    color: bool = False
