"""What stdout is: a terminal for a person, or a pipe for a program. Both get the same facts.

Texts that come from a job file, a worker or a server pass through :func:`line` or :class:`SafeBytes`: nothing a
job prints or is called may drive the terminal.
"""

from __future__ import annotations

import re
import shutil
import sys
import textwrap
from collections.abc import Sequence
from typing import Final, NamedTuple

from qinglong.cli import times
from qinglong.cli.settings import Settings, use_color
from qinglong.domain.story_words import clean
from qinglong.effects import SystemClock
from qinglong.limits import KIB

_SGR: Final = re.compile("\x1b\\[[0-9;:]*m")
_UNSAFE: Final = re.compile("\x1b\\[[0-9;:]*m|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
_CODES: Final = {"red": 31, "green": 32, "yellow": 33, "blue": 34, "cyan": 36, "dim": 2, "bold": 1}
_LINE_BYTES: Final = 64 * KIB
"""A longer line is printed in pieces."""

_LEAST_WIDTH: Final = 20
"""A narrower column of text is left to the terminal's own wrapping."""


class Cell(NamedTuple):
    """One value of a table, with a style by name: red, green, yellow, blue, cyan, dim, bold."""

    text: str
    style: str = ""


class Terminal:
    """Prints for whoever reads stdout."""

    def __init__(self, settings: Settings) -> None:
        self.is_tty = sys.stdout.isatty()
        self.color = use_color(sys.stdout, no_color=settings.no_color)
        self.now_ms = SystemClock().wall_ms()
        """UTC ms when the command began."""

    @property
    def width(self) -> int:
        """Columns of the terminal."""
        return shutil.get_terminal_size((100, 24)).columns

    def moment(self, at_ms: int | None) -> str:
        """A moment for a person on a terminal, ISO 8601 for a program."""
        return times.human(at_ms, self.now_ms) if self.is_tty else times.iso(at_ms)

    def paint(self, text: str, style: str) -> str:
        """The text in a style, where there are colours."""
        return f"\x1b[{_CODES[style]}m{text}\x1b[0m" if self.color and style else text

    def say(self, text: str = "") -> None:
        """One line of ours."""
        sys.stdout.write(f"{text}\n")

    def hanging(self, label: str, text: str) -> None:
        """A label and a text beside it; on a terminal the text's further lines stand under its first."""
        indent = len(label) + 2
        if self.is_tty and self.width > indent + _LEAST_WIDTH:
            lines = textwrap.wrap(text, self.width - indent, break_on_hyphens=False)
            text = f"\n{' ' * indent}".join(lines)
        self.say(f"{self.paint(label, 'dim')}  {text}" if label else f"  {text}")

    def table(self, headers: tuple[str, ...], rows: Sequence[tuple[Cell, ...]], *, loose: int) -> None:
        """A table: rich on a terminal, aligned text elsewhere. Column ``loose`` may wrap, the others never do."""
        if self.is_tty:
            from qinglong.cli.rich_table import show

            show(headers, rows, loose=loose, color=self.color, width=self.width)
            return
        self.say(plain_table(headers, rows))

    def pairs(self, pairs: list[tuple[str, Cell]]) -> None:
        """Names and values, one a line; pairs without a value are left out."""
        given = [(name, cell) for name, cell in pairs if cell.text]
        width = max((len(name) for name, _ in given), default=0)
        for name, cell in given:
            self.say(f"{self.paint(name.ljust(width), 'dim')}  {self.paint(cell.text, cell.style)}")


def plain_table(headers: tuple[str, ...], rows: Sequence[tuple[Cell, ...]]) -> str:
    """Columns aligned by blanks, at least two between them; an empty value is ``-``, so that columns can be cut."""
    lines = [list(headers), *([cell.text or "-" for cell in row] for row in rows)]
    widths = [max(len(line[index]) for line in lines) for index in range(len(headers))]
    padded = (
        "  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)) for line in lines
    )
    return "\n".join(text.rstrip() for text in padded)


def line(text: str) -> str:
    """Foreign text as one bounded, harmless line."""
    return clean(text)


class SafeBytes:
    """A job's output on a terminal: whole lines, colours kept (or not), everything else that acts made visible."""

    def __init__(self, *, keep_color: bool) -> None:
        self._keep_color = keep_color
        self._rest = b""

    def feed(self, data: bytes) -> str:
        """The printable text of every line that is whole now."""
        data = self._rest + data
        end = data.rfind(b"\n") + 1
        if len(data) - end > _LINE_BYTES:
            end = len(data)
        self._rest = data[end:]
        return self._safe(data[:end])

    def flush(self) -> str:
        """The text of an unfinished last line."""
        data, self._rest = self._rest, b""
        return self._safe(data)

    def _safe(self, data: bytes) -> str:
        text = _UNSAFE.sub(self._visible, data.decode("utf-8", "replace"))
        if not self._keep_color or _SGR.search(text) is None:
            return text
        # Nothing of ours is painted in the job's colours.
        end = "\n" if text.endswith("\n") else ""
        return f"{text.removesuffix(end)}\x1b[0m{end}"

    def _visible(self, found: re.Match[str]) -> str:
        text = found[0]
        if len(text) > 1:
            return text if self._keep_color else ""
        return f"^{chr(ord(text) ^ 64)}" if ord(text) < 128 else f"<{ord(text):02x}>"


__all__ = ["Cell", "SafeBytes", "Terminal", "line", "plain_table"]
