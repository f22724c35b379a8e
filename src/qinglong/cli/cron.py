"""``ql cron preview EXPR``: the schedule in words and its next fires, from the scheduler's own engine."""

from __future__ import annotations

import sys

import click
import msgspec

from qinglong.cli import times
from qinglong.cli.settings import Settings, global_options
from qinglong.cli.terminal import Cell, Terminal
from qinglong.cli.verb import verb
from qinglong.domain.cron import describe
from qinglong.domain.preview import preview
from qinglong.limits import LIST_CAP


@click.group("cron", params=global_options(hidden=True), help="What a schedule means and when it fires.")
def command() -> None:
    """The noun; its verbs follow."""


@verb(
    "preview",
    "Show a schedule in words and its next fires.",
    "EXPR has five fields, or six with seconds first. Where clocks change, a time that comes twice stands there"
    " twice, with both offsets.",
)
@click.argument("expr")
@click.option("--tz", default="", metavar="Z", help="IANA time zone [the machine's].")
@click.option(
    "--count", type=click.IntRange(1, LIST_CAP), default=10, show_default=True, help="How many fires."
)
def preview_command(settings: Settings, expr: str, tz: str, count: int) -> int:
    """Print the words and the fires; ``Invalid`` says what is wrong with the schedule or the zone."""
    from qinglong.profiles.machine import machine_zone

    zone = tz or machine_zone()
    terminal = Terminal(settings)
    rows = preview(expr, zone, terminal.now_ms, count)
    words = describe(expr)
    if settings.json:
        fires = [
            {"fire_ms": row.fire_ms, "local": row.local, "utc": times.iso_utc(row.fire_ms)} for row in rows
        ]
        whole = {"expr": expr, "zone": zone, "words": words, "fires": fires}
        sys.stdout.write(f"{msgspec.json.encode(whole).decode()}\n")
        return 0
    terminal.say(f"{words} ({zone})")
    table = [(Cell(row.local), Cell(times.iso_utc(row.fire_ms))) for row in rows]
    terminal.table(("LOCAL", "UTC"), table, loose=0)
    return 0


command.add_command(preview_command)

__all__ = ["command"]
