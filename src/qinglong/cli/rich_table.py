"""Tables on a terminal. The only module that imports rich."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from qinglong.cli.terminal import Cell


def show(
    headers: tuple[str, ...], rows: Sequence[tuple[Cell, ...]], *, loose: int, color: bool, width: int
) -> None:
    """Print to stdout. Values are plain text, never markup; column ``loose`` folds where the width is short."""
    table = Table(box=None, pad_edge=False, header_style="bold" if color else "")
    for index, header in enumerate(headers):
        table.add_column(header, no_wrap=index != loose, overflow="fold" if index == loose else "ellipsis")
    for row in rows:
        table.add_row(*(Text(cell.text, style=cell.style if color else "") for cell in row))
    Console(
        width=width, no_color=not color, color_system="standard" if color else None, highlight=False
    ).print(table)


__all__ = ["show"]
