"""The disk of the data folder: new Runs pause while it is nearly full, running ones keep room for their results."""

from __future__ import annotations

import os
from pathlib import Path

from qinglong.limits import DISK_RESERVE_BYTES, MIB


def shortage(folder: Path, reserve: int = DISK_RESERVE_BYTES) -> str:
    """Why no new Run may start, for people; empty while there is room (statvfs(3))."""
    found = os.statvfs(folder)
    free = found.f_bavail * found.f_frsize
    if free >= min(reserve, found.f_blocks * found.f_frsize // 4):
        return ""
    return f"the disk of {folder} has only {free / MIB:.1f} MiB left: free some space"
