"""``ql version``: this program's version and, when one answers, the server's."""

from __future__ import annotations

import platform
import sys

import msgspec

from qinglong import __version__
from qinglong.cli.session import Session
from qinglong.cli.settings import Settings
from qinglong.cli.verb import verb
from qinglong.errors import QingLongError
from qinglong.wire.api import VersionInfo


@verb(
    "version", "Print the versions of client and server.", "Without a server the client's is printed alone."
)
def command(settings: Settings) -> int:
    """Print both versions; a server that does not answer is no error here, unless it was named."""
    server = _server(settings)
    if settings.json:
        client = {"version": __version__, "python": platform.python_version()}
        whole = {"client": client, "server": None if server is None else msgspec.Raw(server)}
        sys.stdout.write(f"{msgspec.json.encode(whole).decode()}\n")
        return 0
    sys.stdout.write(f"ql {__version__} (Python {platform.python_version()})\n")
    if server is not None:
        sys.stdout.write(f"{_words(msgspec.json.decode(server, type=VersionInfo))}\n")
    return 0


def _server(settings: Settings) -> bytes | None:
    try:
        reply = Session(settings).get("/version")
        reply.decode(VersionInfo)
    except QingLongError:
        if settings.server:
            raise
        return None
    return reply.body


def _words(found: VersionInfo) -> str:
    parts = [found.profile, f"Python {found.python}"]
    parts += [f"SQLite {found.sqlite}"] if found.sqlite else []
    parts += [f"schema {found.schema}"] if found.schema else []
    place = f" on {found.data}" if found.data else ""
    return f"server {found.version} ({', '.join(parts)}){place}"


__all__ = ["command"]
