"""Reading ``/proc``: what a process is, whose it is, what its environment says.

Source: proc(5). ``proc`` arguments name the mount, so that tests can bring their own.
"""

from __future__ import annotations

import contextlib
import os
from typing import Final, Literal, NamedTuple

PROC: Final = "/proc"
_KERNEL_THREAD: Final = 0x0020_0000
"""PF_KTHREAD in field 9 of ``/proc/PID/stat``."""
_CHUNK: Final = 128 * 1024
_ENVIRON_TRIES: Final = 3

Carrier = Literal["yes", "no", "gone", "unreadable"]


class Stat(NamedTuple):
    """One process as ``/proc/PID/stat`` shows it; ``start_ticks`` with ``pid`` is its identity within a boot."""

    pid: int
    state: str
    ppid: int
    pgrp: int
    session: int
    kernel: bool
    threads: int
    start_ticks: int

    @property
    def alive(self) -> bool:
        """A zombie is dead, unless only its first thread has ended."""
        return self.state not in "ZXx" or self.threads > 1


def parse_stat(raw: bytes) -> Stat | None:
    """The line's fields; ``None`` if it is not such a line. The name may hold anything, also ``) R 1``."""
    before, found, after = raw.rpartition(b")")
    fields = after.split()
    if not found or len(fields) < 20:
        return None
    try:
        return Stat(
            pid=int(before.partition(b"(")[0]),
            state=fields[0].decode("ascii"),
            ppid=int(fields[1]),
            pgrp=int(fields[2]),
            session=int(fields[3]),
            kernel=bool(int(fields[6]) & _KERNEL_THREAD),
            threads=int(fields[17]),
            start_ticks=int(fields[19]),
        )
    except ValueError:
        return None


def read_stat(pid: int, proc: str = PROC) -> Stat | None:
    """The process now, ``None`` if there is none of that number."""
    try:
        fd = os.open(f"{proc}/{pid}/stat", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        return parse_stat(os.read(fd, 4096))
    except ProcessLookupError:
        return None
    finally:
        os.close(fd)


def pids(proc: str = PROC) -> set[int]:
    """Every process number in sight."""
    return {int(name) for name in os.listdir(proc) if name.isdigit()}  # noqa: PTH208 - ten times cheaper


def carries(stat: Stat, marks: tuple[bytes, ...], proc: str = PROC) -> Carrier:
    """Does the process's environment hold every one of ``marks`` (whole ``NAME=value`` entries)?

    For an instant within execve(2) the environment reads as empty, so an empty one is read again.
    """
    for _ in range(_ENVIRON_TRIES):
        try:
            raw = _environ(f"{proc}/{stat.pid}/environ") or _of_any_thread(f"{proc}/{stat.pid}/task")
        except FileNotFoundError:
            return "gone"
        except OSError:
            return "unreadable"
        if raw:
            framed = b"\0" + raw + b"\0"
            return "yes" if all(b"\0" + mark + b"\0" in framed for mark in marks) else "no"
    return "no"


def belongs_to(pid: int, uid: int, proc: str = PROC) -> bool:
    """Is ``uid`` the real, effective, saved or file system user of the process? True when that is hidden."""
    try:
        uids = _status(pid, b"Uid:", proc)
    except (FileNotFoundError, ProcessLookupError):
        return False
    except OSError:
        return True
    return str(uid).encode() in uids


def catches(pid: int, signum: int, proc: str = PROC) -> bool:
    """Has the process a handler for that signal? A shell has none before it came to its ``trap``."""
    try:
        masks = _status(pid, b"SigCgt:", proc)
    except OSError:
        return False
    return bool(masks) and bool(int(masks[0], 16) >> (signum - 1) & 1)


def process_of(place: str) -> int | None:
    """The process that a thread belongs to, by its folder in ``/proc``; ``None`` if it has ended."""
    try:
        words = _field(place, b"Tgid:")
    except OSError:
        return None
    return int(words[0]) if words else None


def group_of(place: str) -> str:
    """The v2 control group of a process or thread, by its folder in ``/proc``; raises ``OSError`` if it has ended."""
    with open(f"{place}/cgroup", "rb") as file:  # noqa: PTH123
        lines = file.read().decode("utf-8", "surrogateescape").splitlines()
    return next((line[3:] for line in lines if line.startswith("0::")), "")


def _status(pid: int, field: bytes, proc: str) -> list[bytes]:
    return _field(f"{proc}/{pid}", field)


def _field(place: str, field: bytes) -> list[bytes]:
    """The words of one field of ``/proc/PID/status``."""
    with open(f"{place}/status", "rb") as file:  # noqa: PTH123
        lines = file.read().splitlines()
    return next((line.split()[1:] for line in lines if line.startswith(field)), [])


def _environ(path: str) -> bytes:
    """The environment; empty for a thread that has ended (ESRCH) as for one that has none."""
    parts = []
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except ProcessLookupError:
        return b""
    try:
        while part := os.read(fd, _CHUNK):
            parts.append(part)
    except ProcessLookupError:
        return b""
    finally:
        os.close(fd)
    return b"".join(parts)


def _of_any_thread(folder: str) -> bytes:
    """When the first thread has ended its environment is gone, those of the others are not."""
    for name in os.listdir(folder):  # noqa: PTH208
        with contextlib.suppress(FileNotFoundError):
            if raw := _environ(f"{folder}/{name}/environ"):
                return raw
    return b""
