"""A v2 control group of its own for an Attempt: made here, entered by its keeper.

A group sees what an environment cannot: children that detached and scrubbed their environment. The groups are
*threaded*, because a task that moves itself between groups of one threaded subtree waits for nobody, while any
other move waits for an RCU grace period, some ten milliseconds (ADR 0017). In a threaded group ``cgroup.procs``
cannot be read, nor ``cgroup.kill`` written; so its threads are read, and processes are killed one by one. All
functions but :func:`make` work on a group of any type.
Source: cgroups(7); the kernel's admin-guide/cgroup-v2, "Threads", "cgroup.events", "cgroup.freeze".
"""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
from typing import Final, NamedTuple

from qinglong.worker.linux import procfs

_DEPTH: Final = 64
"""Groups below an Attempt's own that are read when its members are listed (I10)."""


class Made(NamedTuple):
    """A new group. ``entrance``: a descriptor on its ``cgroup.threads``; whoever writes ``0`` to it is inside.

    The kernel asks for the rights of whoever opened it, so that a keeper under another account can enter too.
    """

    folder: str
    entrance: int


def make(parent: str, name: str) -> Made | None:
    """A new, empty, threaded group; ``None`` if it cannot be made. The caller closes the entrance."""
    group = f"{parent}/{name}"
    try:
        with contextlib.suppress(FileExistsError):
            os.mkdir(group)  # noqa: PTH102
    except OSError:
        return None
    try:
        write(f"{group}/cgroup.type", b"threaded")
        return Made(group, os.open(f"{group}/cgroup.threads", os.O_WRONLY | os.O_CLOEXEC))
    except OSError:
        remove(group)
        return None


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
    return _event(group, b"populated")


def frozen(group: str) -> bool | None:
    """Has everything in the group and below it stopped, after :func:`freeze`?"""
    return _event(group, b"frozen")


def freeze(group: str, wanted: bool) -> bool:
    """Let everything in it stand still, or go on; False where the kernel has no such file (before 5.2).

    What stands still forks no more, and dies by SIGKILL all the same.
    """
    try:
        write(f"{group}/cgroup.freeze", b"1" if wanted else b"0")
    except OSError:
        return False
    return True


def members(group: str, proc: str = procfs.PROC) -> frozenset[int]:
    """The processes in the group and below it."""
    return frozenset(
        pid for tid in _threads(group) if (pid := procfs.process_of(f"{proc}/{tid}")) is not None
    )


def kill(group: str, spare: int = 0) -> None:
    """SIGKILL to every process that is in the group or below it at this moment, except ``spare``."""
    name = os.path.basename(group)  # noqa: PTH119
    for tid in _threads(group):
        with contextlib.suppress(OSError):
            _kill_process_of(tid, name, spare)


def _kill_process_of(tid: int, name: str, spare: int) -> None:
    """An open folder of ``/proc`` stays with its thread: it answers no more once that has ended.

    So if it still answers after the pidfd is held, the pidfd is that thread's process and no stranger. Only a
    process has a pidfd, not each of its threads. Raises ``OSError``.
    """
    place = os.open(f"{procfs.PROC}/{tid}", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        pid = procfs.process_of(f"/proc/self/fd/{place}")
        if pid is None or pid in (spare, os.getpid()):
            return
        pidfd = os.pidfd_open(pid)
        try:
            if name in procfs.group_of(f"/proc/self/fd/{place}").split("/"):
                signal.pidfd_send_signal(pidfd, signal.SIGKILL)
        finally:
            os.close(pidfd)
    finally:
        os.close(place)


def _threads(group: str) -> list[int]:
    found: list[int] = []
    for folder in _tree(group):
        with contextlib.suppress(OSError), open(f"{folder}/cgroup.threads", "rb") as file:  # noqa: PTH123
            found.extend(map(int, file.read().split()))
    return found


def _tree(group: str) -> list[str]:
    walk = (folder for folder, _, _ in os.walk(group))
    return list(itertools.islice(walk, _DEPTH))


def _event(group: str, name: bytes) -> bool | None:
    """A line of ``cgroup.events``; ``None`` if it is not there."""
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
    if name + b" 1" in raw:
        return True
    return False if name + b" 0" in raw else None


def write(path: str, value: bytes) -> None:
    """One write to a file of a group; raises ``OSError``."""
    fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(fd, value)
    finally:
        os.close(fd)
