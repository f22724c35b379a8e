"""A v2 control group of its own for an Attempt, where this machine lets us make one.

A group sees what an environment cannot: children that detached and scrubbed their environment. It needs
write access below our own group (root, or a delegated subtree); without it everything works by ``/proc`` alone.
Source: cgroups(7); the kernel's admin-guide/cgroup-v2, "cgroup.events" and "cgroup.kill" (Linux 5.14).
"""

from __future__ import annotations

import contextlib
import itertools
import os
from pathlib import Path
from typing import Final

PARENT: Final = "qinglong"
_DEPTH: Final = 64
"""Groups below an Attempt's own that are read when its members are listed (I10)."""


def parent(mountinfo: Path = Path("/proc/self/mountinfo"), own: Path = Path("/proc/self/cgroup")) -> str:
    """The folder in which Attempts' groups are made, created if need be; empty where that is impossible."""
    try:
        base = _own_group(mountinfo.read_text("utf-8"), own.read_text("utf-8"))
        if base is None:
            return ""
        folder = base / PARENT
        folder.mkdir(exist_ok=True)
        probe = folder / f".probe-{os.getpid()}"
        probe.mkdir(exist_ok=True)
        probe.rmdir()
    except (OSError, ValueError):
        return ""
    return str(folder)


def _own_group(mountinfo: str, own: str) -> Path | None:
    """Where our own v2 group is mounted: plain v2 or the ``unified`` tree beside v1."""
    path = next((line[3:] for line in own.splitlines() if line.startswith("0::")), None)
    if path is None or ".." in path:
        return None
    for line in mountinfo.splitlines():
        left, _, right = line.partition(" - ")
        if right.startswith("cgroup2 "):
            root, point = left.split(" ")[3:5]
            inside = path.removeprefix(root.rstrip("/"))
            return Path(point.replace("\\040", " ") + inside)
    return None


def make(folder: str, name: str) -> str:
    """A new, empty group; its folder, or empty text if it cannot be made."""
    group = f"{folder}/{name}"
    try:
        with contextlib.suppress(FileExistsError):
            os.mkdir(group)  # noqa: PTH102
    except OSError:
        return ""
    return group


def enter(group: str, pid: int) -> None:
    """Move a process into its group. The kernel may wait some ten milliseconds for a grace period: use a thread.

    A group that it cannot enter is removed: an empty one would call a running tree gone. Raises ``OSError`` when
    that fails as well.
    """
    try:
        _write(f"{group}/cgroup.procs", b"%d" % pid)
    except OSError:
        remove(group)
        if os.path.isdir(group):  # noqa: PTH112
            raise


def remove(group: str) -> None:
    """Remove an empty group, and empty groups that the job made below it; one that is in use stays."""
    with contextlib.suppress(OSError):
        os.rmdir(group)  # noqa: PTH106
        return
    for below in reversed(_tree(group)):
        with contextlib.suppress(OSError):
            os.rmdir(below)  # noqa: PTH106


def populated(group: str) -> bool | None:
    """Is any process in the group or below it? ``None``: it cannot tell (no such group)."""
    try:
        fd = os.open(f"{group}/cgroup.events", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        raw = os.read(fd, 4096)
    except OSError:
        return None
    finally:
        os.close(fd)
    if b"populated 1" in raw:
        return True
    return False if b"populated 0" in raw else None


def members(group: str) -> frozenset[int]:
    """The processes in the group and below it; a zombie may be among them."""
    found: set[int] = set()
    for folder in _tree(group):
        with contextlib.suppress(OSError):
            found.update(map(int, Path(folder, "cgroup.procs").read_text("ascii").split()))
    return frozenset(found)


def kill(group: str) -> bool:
    """SIGKILL to everything in it at once, also to what forks meanwhile; False where the kernel has no such file."""
    try:
        _write(f"{group}/cgroup.kill", b"1")
    except OSError:
        return False
    return True


def _tree(group: str) -> list[str]:
    walk = (folder for folder, _, _ in os.walk(group))
    return list(itertools.islice(walk, _DEPTH))


def _write(path: str, value: bytes) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(fd, value)
    finally:
        os.close(fd)
