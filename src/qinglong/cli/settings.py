"""The global options: where the server is, whose runs, and how to print. Cheap to import.

They may stand before or after the subcommand; the later one wins. Reference: ``docs/cli.md``.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click


@dataclass(slots=True)
class Settings:
    """What the global options said; filled while the command line is parsed."""

    server: str = ""
    token_file: Path | None = None
    data: Path | None = None
    project: str = "default"
    output: str = "table"
    no_color: bool = False
    yes: bool = False

    @property
    def json(self) -> bool:
        """Print one JSON document instead of tables and sentences."""
        return self.output == "json"

    @property
    def data_folder(self) -> Path:
        """``--data``, else ``$QL_DATA``, else ``~/.local/share/qinglong``; absolute."""
        if self.data is not None:
            return self.data.expanduser().absolute()
        given = os.environ.get("QL_DATA", "")
        folder = Path(given) if given else Path("~/.local/share/qinglong")
        return folder.expanduser().absolute()


def global_options(*, hidden: bool) -> list[click.Parameter]:
    """Fresh options that write into :class:`Settings`; ``hidden`` keeps them out of a subcommand's help."""
    path = click.Path(path_type=Path)
    return [
        _option(
            ["--server"], hidden, metavar="URL", help="The server's address; else that of the data folder."
        ),
        _option(["--token-file"], hidden, type=path, metavar="F", help="File with the access token."),
        _option(
            ["--data"],
            hidden,
            type=path,
            metavar="D",
            help="Data folder [$QL_DATA, ~/.local/share/qinglong].",
        ),
        _option(["--project"], hidden, metavar="P", help="Project [default]."),
        _option(["--output"], hidden, type=click.Choice(["table", "json"]), help="How to print [table]."),
        _option(["--no-color"], hidden, is_flag=True, help="No colours; so does NO_COLOR."),
        _option(["--yes"], hidden, is_flag=True, help="Answer yes to every question."),
    ]


def _option(names: list[str], hidden: bool, **rest: Any) -> click.Option:
    # Eager: an error in another argument is then already printed in the asked form.
    return click.Option(names, hidden=hidden, expose_value=False, is_eager=True, callback=_store, **rest)


def _store(context: click.Context, option: click.Parameter, value: Any) -> Any:
    settings = context.find_object(Settings)
    if settings is not None and value is not None and value is not False and option.name is not None:
        setattr(settings, option.name, value)
    return value


def use_color(stream: Any, *, no_color: bool) -> bool:
    """Colours only on a terminal that has them, and never against ``NO_COLOR`` (no-color.org) or ``--no-color``."""
    if no_color or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    return stream is not None and bool(stream.isatty())


__all__ = ["Settings", "global_options", "use_color"]
