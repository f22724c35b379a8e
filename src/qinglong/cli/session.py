"""What most commands need together: the settings, stdout, and the server once it is asked something."""

from __future__ import annotations

import sys
from urllib.parse import quote

import click

from qinglong.cli.client import Client, Query, Reply
from qinglong.cli.locate import locate
from qinglong.cli.settings import Settings
from qinglong.cli.terminal import Terminal

API = "/api/v1"


class Session:
    """One command's view of the server."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.terminal = Terminal(settings)
        self.client = Client(locate(settings))
        click.get_current_context().call_on_close(self.client.close)

    def get(self, path: str, query: Query | None = None) -> Reply:
        """Read ``/api/v1`` + ``path``."""
        return self.client.get(f"{API}{path}", query)

    def detail(self, run: str) -> Reply:
        """The details of a Run named as people name it. Raises ``NotFound``, ``Invalid`` (ambiguous)."""
        return self.get(f"/runs/{part(run)}")


def part(text: str) -> str:
    """A text as one segment of a path."""
    return quote(text, safe="")


def print_json(reply: Reply) -> int:
    """The API's JSON exactly as it came, as one document; exit code 0."""
    sys.stdout.write(reply.body.decode("utf-8", "replace"))
    sys.stdout.write("\n")
    return 0


__all__ = ["API", "Session", "part", "print_json"]
