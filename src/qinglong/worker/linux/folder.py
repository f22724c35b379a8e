"""The files of an Attempt: where they are, how the receipt and the pid file are laid out.

``<folder>/<run>/<step or ->.<number>.<what>``: one folder a Run, and of a finished Attempt one file, its log.
Receipt and pid file are allocated before the command starts and overwritten in place, so that a full disk
cannot lose the outcome. Source: design section 7.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
from pathlib import Path
from typing import Final

from qinglong.worker.host import AttemptKey, Receipt
from qinglong.worker.linux import procfs

ALLOCATED_BYTES: Final = 1024
"""Bytes of a receipt and of a pid file; a line of either is far shorter."""
_SAFE: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}")
_LINE: Final = re.compile(rb"(ended|not_begun) (-|\d{1,3}) (.*) ;")
_ENDS_A_PROCESS: Final = frozenset({*range(1, 17), *range(24, 28), *range(29, 32)})
"""Signals whose default action is to end a process (signal(7)); others cannot have been its death."""


def safe(text: str) -> str:
    """``text`` if it may be a file name, else its digest behind ``=``. Neither begins with ``-``."""
    if _SAFE.fullmatch(text):
        return text
    return "=" + hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def stem(key: AttemptKey) -> str:
    """How this Attempt's file names begin."""
    return f"{safe(key.step) if key.step else '-'}.{key.number}"


def run_folder(folder: Path | str, key: AttemptKey) -> str:
    """The folder of the Run's Attempts. Text, as the next two: joining a ``Path`` costs more than opening it."""
    return f"{folder}/{safe(key.run_id)}"


def receipt_path(folder: Path | str, key: AttemptKey) -> str:
    """The keeper's receipt."""
    return f"{run_folder(folder, key)}/{stem(key)}.receipt"


def pid_path(folder: Path | str, key: AttemptKey) -> str:
    """The command's ``/proc/PID/stat`` line as it was before its execve(2)."""
    return f"{run_folder(folder, key)}/{stem(key)}.pid"


def log_path(folder: Path | str, key: AttemptKey) -> Path:
    """The log; also the one thing that stays."""
    return Path(f"{run_folder(folder, key)}/{stem(key)}.log")


def mark(key: AttemptKey) -> str:
    """What a receipt must carry to count for this Attempt."""
    return f"{safe(key.run_id)} {stem(key)}"


def allocate(path: str, uid: int, mode: int = 0o600) -> None:
    """A new file of blanks that ``uid`` owns, replacing an older one; raises ``OSError`` if the disk is full."""
    fd = create(path, uid, mode)
    try:
        os.write(fd, b" " * ALLOCATED_BYTES)
    finally:
        os.close(fd)


def create(path: str, uid: int, mode: int = 0o600) -> int:
    """A descriptor on a new, empty file that ``uid`` owns. An older file goes: its writer keeps its own inode."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
    try:
        fd = os.open(path, flags, mode)
    except FileExistsError:
        os.unlink(path)  # noqa: PTH108
        fd = os.open(path, flags, mode)
    if uid != os.geteuid():
        try:
            os.fchown(fd, uid, -1)
        except OSError:
            os.close(fd)
            raise
    return fd


def read_receipt(path: str, wanted: str) -> Receipt | None:
    """The receipt, ``None`` if there is none, it is torn, or carries another mark.

    ``sh`` reports death by signal n as 128 + n, the same as an exit with that code; where n is a signal that
    ends processes it is taken for one (``docs/execution.md``).
    """
    first = _first_line(path)
    found = _LINE.fullmatch(first) if first is not None else None
    if found is None or found[3] != wanted.encode():
        return None
    if found[1] == b"not_begun":
        return Receipt("not_begun")
    status = int(found[2]) if found[2] != b"-" else 256
    if status > 255:
        return None
    if status - 128 in _ENDS_A_PROCESS:
        return Receipt("ended", signal=status - 128)
    return Receipt("ended", exit_code=status)


def read_command(path: str) -> tuple[int, int] | None:
    """Pid and start ticks of the recorded command, if the keeper began it."""
    first = _first_line(path)
    stat = procfs.parse_stat(first) if first is not None else None
    return None if stat is None else (stat.pid, stat.start_ticks)


def _first_line(path: str) -> bytes | None:
    """The first line, only if its end was written too."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return None
    try:
        line, end, _ = os.read(fd, ALLOCATED_BYTES).partition(b"\n")
    finally:
        os.close(fd)
    return line if end else None


def forget(folder: Path | str, key: AttemptKey, *, log: bool) -> None:
    """Remove the Attempt's files, with ``log`` also that (and its Run's folder if it was the last)."""
    _unlink(receipt_path(folder, key))
    _unlink(pid_path(folder, key))
    if not log:
        return
    _unlink(str(log_path(folder, key)))
    _unlink(str(log_path(folder, key).with_suffix(".hole")))
    with contextlib.suppress(OSError):
        os.rmdir(run_folder(folder, key))  # noqa: PTH106


def _unlink(path: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)  # noqa: PTH108
