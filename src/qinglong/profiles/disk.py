"""The disk of the data folder: new Runs pause while it is nearly full, running ones keep room for their results."""

from __future__ import annotations

import os
from pathlib import Path

from qinglong.limits import DISK_RESERVE_BYTES, MIB

_FILES = 256
"""With room for fewer files than this new Runs pause: each needs some for its log and receipt."""


def shortage(folder: Path, reserve: int = DISK_RESERVE_BYTES) -> str:
    """Why no new Run may start, for people; empty while there is room (statvfs(3))."""
    found = os.statvfs(folder)
    # A file system that makes room for files as it needs it (btrfs) counts none.
    if found.f_files and found.f_favail < min(_FILES, found.f_files // 4):
        return f"the disk of {folder} has room for only {found.f_favail} more files: remove some"
    free = found.f_bavail * found.f_frsize
    if free >= min(reserve, found.f_blocks * found.f_frsize // 4):
        return ""
    return f"the disk of {folder} has only {free / MIB:.1f} MiB left: free some space"
