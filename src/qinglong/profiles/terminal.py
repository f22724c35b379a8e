"""What ``ql up`` shows: each job's output with its name before it, and how each Attempt ended."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from pathlib import Path

import msgspec

from qinglong.domain.completion import Result, outcome
from qinglong.effects import Clock
from qinglong.limits import KIB
from qinglong.worker.host import AttemptKey
from qinglong.worker.journal import Entry
from qinglong.worker.linux import joblog
from qinglong.worker.linux.folder import log_path

_POLL_S = 0.2
_BURST = 64 * KIB
"""Most bytes of one Attempt that are shown at a time; a flood is cut with a word about it."""
_COLOURS = ("36", "33", "35", "32", "34", "96", "93", "95")


class _Shown(msgspec.Struct):
    task: str
    began_ms: int | None = None
    """By CLOCK_BOOTTIME; ``None``: begun by an earlier process."""
    offset: int = 0
    rest: bytes = b""


class Terminal:
    """An ``Observer`` of the worker. It polls log files while something runs, and sleeps otherwise."""

    def __init__(self, folder: Path, clock: Clock, write: Callable[[str], None], *, color: bool) -> None:
        self._folder = folder
        self._clock = clock
        self._write = write
        self._color = color
        self._running: dict[AttemptKey, _Shown] = {}
        self._colours: dict[str, str] = {}
        self._wake = asyncio.Event()

    def began(self, entry: Entry) -> None:
        """A command runs now."""
        self._running[entry.key] = _Shown(entry.task, self._clock.boot_ms())
        self._wake.set()

    def resumed(self, entry: Entry) -> None:
        """A job from before goes on: what it wrote so far was shown then."""
        offset = 0
        with contextlib.suppress(OSError):
            offset = joblog.length(log_path(self._folder, entry.key))
        self._running[entry.key] = _Shown(entry.task, offset=offset)
        self._wake.set()

    def ended(self, entry: Entry, result: Result | None) -> None:
        """It has ended, as the worker reported it."""
        shown = self._running.pop(entry.key, None) or _Shown(entry.task)
        self._show(entry.key, shown)
        if shown.rest:
            self._line(shown.task, shown.rest)
        self.say(
            self._verdict(result), f"{shown.task} {self._words(result)}{self._how(entry, shown, result)}"
        )

    def _how(self, entry: Entry, shown: _Shown, result: Result | None) -> str:
        """How long it took, which attempt it was, and where to ask why."""
        words = ""
        if shown.began_ms is not None:
            words = f" after {(self._clock.boot_ms() - shown.began_ms) / 1000:.1f} s"
        if entry.number > 1:
            words += f", attempt {entry.number}"
        if result is None or outcome(result)[0] != "succeeded":
            words += f" — ql explain {entry.run_id[-8:]}"
        return words

    def say(self, mark: str, text: str) -> None:
        """A line of our own."""
        self._write(f"{mark} {text}\n")

    async def run(self) -> None:
        """Show what running Attempts write, until cancelled."""
        while True:
            if not self._running:
                self._wake.clear()
                await self._wake.wait()
            await asyncio.sleep(_POLL_S)
            for key, shown in list(self._running.items()):
                self._show(key, shown)

    def _show(self, key: AttemptKey, shown: _Shown) -> None:
        path = log_path(self._folder, key)
        try:
            chunk = joblog.read(path, shown.offset, _BURST)
            if not chunk.end:
                skipped = max(joblog.length(path) - _BURST, chunk.next_offset)
                if skipped > chunk.next_offset:
                    self._line(shown.task, f"[… {skipped - chunk.next_offset:,} bytes not shown …]".encode())
                chunk = chunk._replace(next_offset=skipped)
        except OSError:
            return
        shown.offset = chunk.next_offset
        *lines, shown.rest = (shown.rest + chunk.data).split(b"\n")
        for line in lines:
            self._line(shown.task, line)
        if len(shown.rest) > _BURST:
            self._line(shown.task, shown.rest)
            shown.rest = b""

    def _line(self, task: str, line: bytes) -> None:
        text = "".join(
            char if char.isprintable() or char == "\t" else "\N{REPLACEMENT CHARACTER}"
            for char in line.rstrip(b"\r").decode(errors="replace")
        )
        self._write(f"{self._name(task)} {text}\n")

    def _name(self, task: str) -> str:
        padded = f"{task:<12} |"
        if not self._color:
            return padded
        colour = self._colours.setdefault(task, _COLOURS[len(self._colours) % len(_COLOURS)])
        return f"\x1b[{colour}m{padded}\x1b[0m"

    def _verdict(self, result: Result | None) -> str:
        good = result is not None and outcome(result)[0] == "succeeded"
        mark = "✓" if good else ("?" if result is None else "✗")
        if not self._color:
            return mark
        return f"\x1b[{32 if good else 31}m{mark}\x1b[0m"

    def _words(self, result: Result | None) -> str:
        if result is None:
            return "left no receipt"
        status, reason = outcome(result)
        return f"{status.replace('_', ' ')} ({reason})" if reason else status
