"""Where the server is and which token opens it: from the options, else from the data folder.

``ql up`` writes ``<data>/api.json`` (``{"url": …, "pid": …}``) and ``<data>/token``.
"""

from __future__ import annotations

import ipaddress
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import msgspec

from qinglong.cli.settings import Settings
from qinglong.datafolder import in_use
from qinglong.errors import Invalid, Unauthorised, Unavailable

_FILE_BYTES: Final = 4096
"""Most that is read of a token or an address file."""


class Address(msgspec.Struct, frozen=True):
    """``api.json``: where the server of this data folder listens."""

    url: str
    pid: int = 0


class Server(msgspec.Struct, frozen=True):
    """A server to talk to."""

    url: str
    token: str
    """Empty: none is sent."""
    data: Path | None
    """The data folder that named it; ``None`` when ``--server`` did."""

    def not_answering(self, why: str) -> Unavailable:
        """The error for a server that cannot be reached; ``why`` is the connection's own word."""
        if self.data is not None:
            return not_running(self.data)
        return Unavailable("no_answer", f"no server answers at {self.url} ({why})", remedy="check --server")


def not_running(data: Path) -> Unavailable:
    """Nobody serves this data folder."""
    return Unavailable(
        "not_running",
        f"ql is not running on {data}",
        remedy="start it with `ql up FILE`, or name another folder: --data D or $QL_DATA",
    )


def locate(settings: Settings) -> Server:
    """The server that the options mean.

    Raises ``Unavailable`` (nobody serves the data folder), ``Unauthorised`` (its token cannot be read),
    ``Invalid`` (an address or a token that cannot be one).
    """
    data = settings.data_folder
    if not settings.server:
        url = _url(_address(data).url, str(data / "api.json"))
        if not in_use(data):
            # A server that was killed left its address behind; whoever has the port now must not see the token.
            raise not_running(data)
        return Server(url, _token(settings.token_file or data / "token"), data)
    url = _url(settings.server, "--server")
    if settings.token_file is not None:
        return Server(url, _token(settings.token_file), None)
    # The data folder's token opens this machine's server; another one has no business seeing it.
    own = data / "token"
    return Server(url, _token(own) if is_loopback(url) and own.exists() else "", None)


def is_loopback(url: str) -> bool:
    """Whether the URL names this very machine."""
    host = urlsplit(url).hostname or ""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _address(data: Path) -> Address:
    try:
        return msgspec.json.decode(_read(data / "api.json"), type=Address)
    except (FileNotFoundError, NotADirectoryError, msgspec.MsgspecError):
        raise not_running(data) from None
    except OSError as error:
        message = f"{data / 'api.json'} cannot be read: {error.strerror}"
        raise Unauthorised(
            "data_unreadable", message, remedy="run ql as the account that owns the folder"
        ) from None


def _url(text: str, place: str) -> str:
    try:
        parts = urlsplit(text)
        _ = parts.port
    except ValueError:
        parts = urlsplit("")
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise Invalid(
            "server_url", f"{text!r} is not a server's address", place=place, remedy="http://HOST:PORT"
        )
    return text.rstrip("/")


def _token(path: Path) -> str:
    try:
        text = _read(path).decode("ascii").strip()
    except FileNotFoundError:
        raise Unauthorised(
            "token_missing", f"there is no token in {path}", remedy="name one: --token-file"
        ) from None
    except OSError as error:
        message = f"the token {path} cannot be read: {error.strerror}"
        raise Unauthorised("token_unreadable", message, remedy="run ql as the account that owns it") from None
    except UnicodeDecodeError:
        text = ""
    if not text or not text.isprintable() or " " in text:
        raise Invalid(
            "token_file", "this file holds no token", place=str(path), remedy="one line of ASCII text"
        )
    return text


def _read(path: Path) -> bytes:
    with path.open("rb") as stream:
        return stream.read(_FILE_BYTES)


__all__ = ["Address", "Server", "is_loopback", "locate", "not_running"]
