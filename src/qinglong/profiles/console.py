"""Lines for a person on stdout. Whatever becomes of the terminal, the server goes on.

It may be paused (Ctrl-S), piped into a pager that nobody pages, closed, or be a file on a full disk. So nothing is
waited for: what cannot be taken at once is left out with a word about it, and an error loses the words only.
"""

from __future__ import annotations

import contextlib
import os
import select
from typing import Final, TextIO

_PIECE: Final = 4096
"""PIPE_BUF (pipe(7)): a pipe that poll(2) calls writable takes so much without blocking."""


class Console:
    """Writes to the descriptor below ``stream``, without its buffer; ``None``: there is no stdout."""

    def __init__(self, stream: TextIO | None) -> None:
        self._fd = -1 if stream is None else _unblocked(stream.fileno())
        self._poll = select.poll()
        if self._fd >= 0:
            self._poll.register(self._fd, select.POLLOUT)
        self._left_out = 0
        self._fresh = True
        """The cursor is at the beginning of a line."""

    def write(self, text: str) -> None:
        """Show it if that is possible at once."""
        data = text.encode("utf-8", "replace")
        if self._left_out:
            note = f"{'' if self._fresh else chr(10)}[… {self._left_out:,} bytes not shown …]\n"
            if self._put(note.encode()):
                self._left_out += len(data)
                return
            self._left_out = 0
        self._left_out = self._put(data)

    def _put(self, data: bytes) -> int:
        """How many bytes were left out because nobody takes them now."""
        rest = data
        with contextlib.suppress(BlockingIOError):
            while rest and self._takes():
                taken = self._write(rest[:_PIECE])
                self._fresh = rest[:taken].endswith(b"\n")
                rest = rest[taken:]
        return len(rest)

    def _takes(self) -> bool:
        return self._fd < 0 or bool(self._poll.poll(0))

    def _write(self, piece: bytes) -> int:
        try:
            return os.write(self._fd, piece)
        except BlockingIOError:
            raise
        except OSError:
            # Closed, or its disk is full: no later word would help.
            return len(piece)


def _unblocked(fd: int) -> int:
    """A terminal opened once more for writing without waiting: the shell's own descriptor is not touched."""
    if not os.isatty(fd):
        return fd
    try:
        return os.open(os.ttyname(fd), os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError:
        return fd


__all__ = ["Console"]
