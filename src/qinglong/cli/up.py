"""``ql up FILE…``: the server of one machine with these job files. Only parses; the profile does the rest."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from qinglong.cli.settings import Settings, use_color
from qinglong.cli.verb import verb
from qinglong.domain.durations import parse
from qinglong.errors import Invalid
from qinglong.limits import DAY
from qinglong.profiles.options import UpOptions

_SLOTS_MAX = 1_024


@verb(
    "up",
    "Start the server with job files.",
    "It runs until Ctrl-C or SIGTERM. Jobs that still run then are waited for as long as --drain says; what runs"
    " longer goes on under its keeper, and the next `ql up` on the same data folder takes it over."
    " --output json logs in JSON.",
)
@click.argument(
    "files", nargs=-1, type=click.Path(exists=True, dir_okay=False, path_type=Path), metavar="FILE..."
)
@click.option(
    "--profile",
    type=click.Choice(["edge", "standalone"]),
    default="standalone",
    show_default=True,
    help="How big.",
)
@click.option(
    "--slots", type=click.IntRange(1, _SLOTS_MAX), metavar="N", help="Runs at once [the profile's]."
)
@click.option(
    "--drain", default="10s", show_default=True, metavar="D", help="Wait for running jobs when stopping."
)
@click.option(
    "--port", type=click.IntRange(0, 65_535), default=5800, show_default=True, help="Of the API; 0: any."
)
@click.option("--host", default="127.0.0.1", show_default=True, metavar="H", help="Address of the API.")
def command(
    settings: Settings,
    files: tuple[Path, ...],
    profile: str,
    slots: int | None,
    drain: str,
    port: int,
    host: str,
) -> int:
    """Serve until told to stop; the server's exit code."""
    if not files:
        raise Invalid("usage", "no job file is named", remedy="ql up FILE, with one or more job files")
    options = UpOptions(
        files=files,
        data=settings.data_folder,
        profile=profile,
        slots=slots,
        drain_ms=_drain(drain),
        host=host,
        port=port,
        json_logs=settings.json,
        color=use_color(sys.stdout, no_color=settings.no_color),
    )
    from qinglong.profiles import standalone

    return standalone.main(options)


def _drain(text: str) -> int:
    try:
        return parse(text, least_ms=0, most_ms=DAY)
    except Invalid as error:
        raise Invalid(error.code, error.message, place="--drain", remedy=error.remedy) from None


__all__ = ["command"]
