"""An Attempt's output: one append-only file, its cap, its reader, its seal.

Offsets are *logical*: they count what the command wrote and never change. A log over its cap keeps half of the
cap at the head and half at the tail; what lay between is a hole, noted in a file beside the log *before* it is
punched (fallocate(2), FALLOC_FL_PUNCH_HOLE), so that no reader takes zeros for output. Where the file system
cannot punch, the log is cut when it is sealed. All functions work without a host. Source: design section 7, I9.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from qinglong.limits import KIB, LOG_READ_BYTES
from qinglong.worker.host import SealedLog
from qinglong.worker.linux import punching

_SLACK_BYTES: Final = 64 * KIB
"""A running log's hole is widened in steps of at least this much."""
_COPY_BYTES: Final = 256 * KIB
_READ_TRIES: Final = 4


class LogChunk(NamedTuple):
    """A piece of a log: ``data`` lies at ``offset``; go on at ``next_offset``.

    ``gap``: the logical range from where was asked to where ``data`` begins that was dropped because of the
    cap, else ``None``. ``end``: the log holds nothing behind ``next_offset`` now.
    """

    data: bytes
    offset: int
    next_offset: int
    end: bool
    gap: tuple[int, int] | None


class _Hole(NamedTuple):
    """``[start, end)`` is dropped. ``length``: the whole logical length, noted when the log is being cut."""

    start: int
    end: int
    length: int | None


class _Layout(NamedTuple):
    """Where the logical bytes of an open log are."""

    length: int
    hole: _Hole | None
    cut: bool

    def physical(self, offset: int) -> int:
        if self.cut and self.hole is not None and offset >= self.hole.end:
            return offset - (self.hole.end - self.hole.start)
        return offset

    def kept(self) -> list[tuple[int, int]]:
        if self.hole is None:
            return [(0, self.length)]
        return [(0, self.hole.start), (self.hole.end, self.length)]


def hole_path(log: Path) -> Path:
    """The note beside a log that tells its hole."""
    return log.with_suffix(".hole")


def read(log: Path, offset: int, limit: int) -> LogChunk:
    """Up to ``limit`` bytes (at most ``LOG_READ_BYTES``) from logical ``offset``; a piece never spans the hole.

    Raises ``FileNotFoundError`` if there is no such log.
    """
    with open(log, "rb", buffering=0) as file:  # noqa: PTH123
        for _ in range(_READ_TRIES):
            noted = _read_hole(log)
            layout = _layout(file.fileno(), noted)
            chunk = _read_once(file.fileno(), layout, offset, min(limit, LOG_READ_BYTES))
            # A hole that was noted meanwhile may have been punched under this read.
            if _read_hole(log) == noted:
                return chunk
    return LogChunk(b"", offset, offset, False, None)


def _read_once(fd: int, layout: _Layout, offset: int, limit: int) -> LogChunk:
    start, stop, gap = offset, layout.length, None
    hole = layout.hole
    if hole is not None and offset < hole.start:
        stop = min(stop, hole.start)
    elif hole is not None and offset < hole.end:
        start, gap = hole.end, (offset, hole.end)
    size = max(0, min(limit, stop - start))
    data = os.pread(fd, size, layout.physical(start)) if size else b""
    after = start + len(data)
    return LogChunk(data, start, after, after >= layout.length, gap)


def length(log: Path) -> int:
    """Logical length in bytes; 0 if there is no log."""
    try:
        with open(log, "rb", buffering=0) as file:  # noqa: PTH123
            return _layout(file.fileno(), _read_hole(log)).length
    except FileNotFoundError:
        return 0


def gap(log: Path) -> tuple[int, int] | None:
    """The logical range that was dropped because of the cap; ``None`` if nothing was, or there is no log."""
    try:
        with open(log, "rb", buffering=0) as file:  # noqa: PTH123
            hole = _layout(file.fileno(), _read_hole(log)).hole
    except FileNotFoundError:
        return None
    return None if hole is None else (hole.start, hole.end)


def trim(log: Path, cap: int, *, slack: int = _SLACK_BYTES) -> int:
    """Apply ``cap`` (bytes) to a log that may be growing; its logical length.

    On disk it then takes at most ``cap + slack`` and what is written before the next call.
    """
    try:
        fd = os.open(log, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return 0
    try:
        noted = _read_hole(log)
        layout = _layout(fd, noted)
        if noted is not None and layout.hole is None:
            hole_path(log).unlink(missing_ok=True)
        _widen(log, fd, layout, cap, slack)
        return layout.length
    finally:
        os.close(fd)


def _widen(log: Path, fd: int, layout: _Layout, cap: int, slack: int) -> None:
    """Note, then punch, the hole that the present length asks for."""
    old = layout.hole
    start = cap // 2 if old is None else old.start
    done = start if old is None else old.end
    end = layout.length - (cap - cap // 2)
    if layout.cut or end - done <= slack:
        return
    _write_hole(log, _Hole(start, end, None))
    if not punching.punch(fd, done, end - done):
        _restore(log, old)


def _restore(log: Path, old: _Hole | None) -> None:
    """Take back a note whose hole could not be punched."""
    if old is None:
        hole_path(log).unlink(missing_ok=True)
    else:
        _write_hole(log, old)


def seal(log: Path, cap: int) -> SealedLog:
    """Apply ``cap`` for good and digest what is kept; a second call finds the same. May take a while."""
    trim(log, cap, slack=0)
    try:
        _cut(log, cap)
        with open(log, "rb", buffering=0) as file:  # noqa: PTH123
            layout = _layout(file.fileno(), _read_hole(log))
            digest = hashlib.sha256()
            for part in _kept(file.fileno(), layout):
                digest.update(part)
    except FileNotFoundError:
        return SealedLog(0, 0, hashlib.sha256().hexdigest())
    kept = sum(stop - start for start, stop in layout.kept())
    return SealedLog(layout.length, layout.length - kept, digest.hexdigest())


def _cut(log: Path, cap: int) -> None:
    """Where punching did not work: rewrite the log as head and tail.

    The note comes first and tells the length, so that before and after the rename a reader can see by the
    file's size how it is laid out.
    """
    with open(log, "rb", buffering=0) as file:  # noqa: PTH123
        fd = file.fileno()
        layout = _layout(fd, _read_hole(log))
        end = layout.length - (cap - cap // 2)
        noted = layout.hole
        if layout.cut or (noted is None and end <= cap // 2) or (noted is not None and noted.length is None):
            return
        hole = noted or _Hole(cap // 2, end, layout.length)
        _write_hole(log, hole)
        temporary = log.with_suffix(".cut")
        with open(temporary, "wb") as target:  # noqa: PTH123
            for part in _kept(fd, _Layout(layout.length, hole, cut=False)):
                target.write(part)
            os.fsync(target.fileno())
    temporary.rename(log)


def _kept(fd: int, layout: _Layout) -> Iterator[bytes]:
    for start, stop in layout.kept():
        at = start
        while at < stop and (part := os.pread(fd, min(_COPY_BYTES, stop - at), layout.physical(at))):
            yield part
            at += len(part)


def _layout(fd: int, noted: _Hole | None) -> _Layout:
    """How an open log is laid out; a hole beyond its end (the job emptied its own log) is none."""
    size = os.fstat(fd).st_size
    if noted is not None and noted.length is not None and size < noted.length:
        return _Layout(noted.length, noted, cut=True)
    if noted is not None and noted.end > size:
        return _Layout(size, None, cut=False)
    return _Layout(size, noted, cut=False)


def _read_hole(log: Path) -> _Hole | None:
    try:
        with open(hole_path(log), "rb", buffering=0) as file:  # noqa: PTH123
            fields = [int(field) for field in file.read(256).split()]
    except (FileNotFoundError, ValueError):
        return None
    if len(fields) not in (2, 3) or not 0 <= fields[0] <= fields[1]:
        return None
    return _Hole(fields[0], fields[1], fields[2] if len(fields) == 3 else None)


def _write_hole(log: Path, hole: _Hole) -> None:
    """Replace the note at once: a reader sees the old or the new one."""
    path = hole_path(log)
    temporary = path.with_suffix(".hole-new")
    temporary.write_text(" ".join(str(field) for field in hole if field is not None) + "\n", "ascii")
    temporary.rename(path)
