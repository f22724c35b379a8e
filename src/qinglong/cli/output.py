"""Where a job's output goes while a command follows it: bytes for a program, safe text for a terminal."""

from __future__ import annotations

import sys

from qinglong.cli.terminal import SafeBytes, Terminal


class StateLine:
    """What a person sees of the Run's state: one line that stays at the bottom of a terminal, or plain lines.

    Plain lines go to stderr, so that stdout is the job's output and nothing else.
    """

    def __init__(self, terminal: Terminal) -> None:
        self._terminal = terminal
        self._live = terminal.is_tty and terminal.color
        self._text = ""
        self._drawn = False
        self._room = True
        """Whether the cursor is at the beginning of a line: only there the line does not destroy output."""

    def show(self, text: str) -> None:
        """The state is this now; the same text again prints nothing."""
        if text == self._text:
            return
        self._text = text
        if self._live:
            self._draw()
            return
        sys.stderr.write(f"{text}\n")
        sys.stderr.flush()

    def hide(self) -> None:
        """Make room for output."""
        if self._drawn:
            self._drawn = False
            sys.stdout.write("\r\x1b[K")
            sys.stdout.flush()

    def back(self, *, room: bool) -> None:
        """After output: put the line back, if the output ended its own line (``room``)."""
        self._room = room
        self._draw()

    def end(self, text: str) -> None:
        """The last state, as a line of its own."""
        self.hide()
        self._text, self._live = "", False
        self.show(text)

    def _draw(self) -> None:
        if not self._live or not self._text or not self._room:
            return
        shown = self._text[: max(self._terminal.width - 1, 1)]
        sys.stdout.write(f"\r\x1b[K{self._terminal.paint(shown, 'dim')}")
        sys.stdout.flush()
        self._drawn = True


class Output:
    """A job's output on stdout. ``raw``: its bytes and nothing else, also on a terminal."""

    def __init__(self, terminal: Terminal, *, raw: bool = False, state: StateLine | None = None) -> None:
        self._raw = raw
        self._safe = SafeBytes(keep_color=terminal.color) if terminal.is_tty and not raw else None
        self._state = state
        self._fresh = True
        """Whether the cursor is at the beginning of a line."""

    def data(self, data: bytes) -> None:
        """Bytes of the command."""
        if not data:
            return
        if self._safe is None:
            self._write(data)
            return
        self._text(self._safe.feed(data))

    def note(self, text: str) -> None:
        """A line of ours inside the output: ``[… text …]``; ``raw`` output has none."""
        if self._raw:
            return
        self.flush()
        self._write(f"{'' if self._fresh else chr(10)}[… {text} …]\n".encode())

    def flush(self) -> None:
        """Print an unfinished last line too."""
        if self._safe is not None:
            self._text(self._safe.flush())
        sys.stdout.flush()

    def end(self) -> None:
        """Nothing follows: on a terminal the next prompt begins at a line of its own."""
        self.flush()
        if self._safe is not None and not self._fresh:
            self._write(b"\n")

    def _text(self, text: str) -> None:
        if text:
            self._write(text.encode("utf-8", "replace"))

    def _write(self, data: bytes) -> None:
        if self._state is not None:
            self._state.hide()
        # Text that waits in stdout's own buffer comes first.
        sys.stdout.flush()
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
        self._fresh = data.endswith(b"\n")
        if self._state is not None:
            self._state.back(room=self._fresh)


__all__ = ["Output", "StateLine"]
