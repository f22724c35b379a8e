"""The HTTP client: one request, one reply or one error of ours.

A GET may be repeated, a POST never is by itself: when its reply is lost, what became of it is *unknown* (I12), and
the caller says how to find out. Proxies of the environment are not used: the server is this machine's, or named.
"""

from __future__ import annotations

import re
from typing import Final, TypeVar
from urllib.parse import urlencode

import msgspec
import urllib3
from urllib3.exceptions import (
    ConnectTimeoutError,
    HTTPError,
    LocationValueError,
    MaxRetryError,
    NewConnectionError,
    SSLError,
)

from qinglong import __version__, errors
from qinglong.cli.locate import Server
from qinglong.errors import Invalid, QingLongError, Unavailable, Unknown
from qinglong.limits import MIB
from qinglong.wire.api import Problem

T = TypeVar("T")
Query = dict[str, str | int | None]

REPLY_BYTES: Final = 64 * MIB
"""Largest reply that is read; far above any page the API gives."""
CONNECT_S: Final = 5.0
READ_S: Final = 30.0
"""Silence after which a reply counts as lost, beside what a long poll asked for."""
_PATIENT: Final = urllib3.Retry(
    total=12,
    redirect=0,
    status_forcelist=(503,),
    raise_on_status=False,
    backoff_factor=0.2,
    backoff_max=3.0,
    respect_retry_after_header=False,
)
"""For following: about half a minute, in which a server may restart or be busy."""
_NEVER: Final = urllib3.Retry(total=0, redirect=0)
_KINDS: Final[dict[int, type[QingLongError]]] = {
    2: errors.Invalid,
    3: errors.NotFound,
    4: errors.Refused,
    5: errors.Unavailable,
    6: errors.Unknown,
    7: errors.Unauthorised,
}


class Reply(msgspec.Struct, frozen=True):
    """A reply that is no error."""

    body: bytes
    headers: dict[str, str]
    """Names in lower case."""

    def decode(self, kind: type[T]) -> T:
        """The JSON body. Raises ``Unavailable`` when it is something else: that is no server of ours."""
        try:
            return msgspec.json.decode(self.body, type=kind)
        except msgspec.MsgspecError as error:
            raise Unavailable(
                "bad_reply",
                f"the server's reply is not what this client reads: {error}",
                remedy="compare the versions with `ql version`, and the address with --server",
            ) from None


class Client:
    """Talks to one server; keeps its connection."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self._pool = urllib3.PoolManager(maxsize=1, retries=False)

    def close(self) -> None:
        """Close the connection; the client may still be used."""
        self._pool.clear()

    def get(self, path: str, query: Query | None = None, *, patient: bool = False, wait_ms: int = 0) -> Reply:
        """Read something; ``patient`` outlasts a restart of the server, ``wait_ms`` is added to the time-out."""
        try:
            return self._request("GET", path, query, None, {}, patient=patient, wait_ms=wait_ms)
        except (HTTPError, OSError) as error:
            raise self._unreachable(error) from None

    def post(
        self, path: str, body: msgspec.Struct, headers: dict[str, str], kind: type[object], repeat: str
    ) -> Reply:
        """Change something; the reply is a ``kind``. ``Unknown`` with the remedy ``repeat`` when it is lost."""
        raw = msgspec.json.encode(body)
        headers = {"Content-Type": "application/json", **headers}
        try:
            reply = self._request("POST", path, None, raw, headers, patient=False, wait_ms=0)
            reply.decode(kind)
        except (HTTPError, OSError) as error:
            if _never_sent(error):
                raise self._unreachable(error) from None
            raise lost_reply(repeat) from None
        except KeyboardInterrupt:
            raise lost_reply(repeat) from None
        except Unavailable as error:
            # Something answered, but not with a word of ours: a gateway between us does not know either.
            if error.code == "bad_reply":
                raise lost_reply(repeat) from None
            raise
        return reply

    def _request(
        self,
        method: str,
        path: str,
        query: Query | None,
        body: bytes | None,
        headers: dict[str, str],
        *,
        patient: bool,
        wait_ms: int,
    ) -> Reply:
        sent = {"User-Agent": f"ql/{__version__}", "Accept": "application/json", **headers}
        if self.server.token:
            sent["Authorization"] = f"Bearer {self.server.token}"
        given = {key: value for key, value in (query or {}).items() if value not in {None, ""}}
        response = self._pool.request(
            method,
            f"{self.server.url}{path}" + (f"?{urlencode(given)}" if given else ""),
            body=body,
            headers=sent,
            timeout=urllib3.Timeout(connect=CONNECT_S, read=READ_S + wait_ms / 1000),
            retries=_PATIENT if patient else _NEVER,
            redirect=False,
            preload_content=False,
        )
        try:
            raw = response.read(REPLY_BYTES + 1)
        finally:
            response.release_conn()
        if len(raw) > REPLY_BYTES:
            raise Unavailable("bad_reply", f"the reply is larger than {REPLY_BYTES // MIB} MiB")
        if not 200 <= response.status < 300:
            raise _refused(response.status, raw)
        return Reply(raw, {name.lower(): value for name, value in response.headers.items()})

    def _unreachable(self, error: Exception) -> QingLongError:
        reason = _reason(error)
        if isinstance(reason, LocationValueError):
            return Invalid(
                "server_url", f"{self.server.url} is not a server's address", remedy="http://HOST:PORT"
            )
        if isinstance(reason, SSLError):
            message = f"no safe connection to {self.server.url}: {reason}"
            return Unavailable("tls", message, remedy="check the address and the server's certificate")
        if _never_sent(error):
            return self.server.not_answering(_short(reason))
        message = f"{self.server.url} did not answer: {_short(reason)}"
        return Unavailable("no_answer", message, remedy="try again; nothing was changed by asking")


def lost_reply(repeat: str) -> Unknown:
    """A change was sent and nobody knows whether it was made."""
    return Unknown(
        "reply_lost", "the server's reply was lost, so it is not known what happened", remedy=repeat
    )


def _reason(error: Exception) -> Exception:
    return error.reason if isinstance(error, MaxRetryError) and error.reason is not None else error


def _never_sent(error: Exception) -> bool:
    """Whether the connection was not even made: then nothing can have happened."""
    reason = _reason(error)
    if isinstance(reason, SSLError):
        return "CERTIFICATE_VERIFY_FAILED" in str(reason)
    return isinstance(reason, NewConnectionError | ConnectTimeoutError | LocationValueError)


def _short(error: Exception) -> str:
    """The connection's own word, without the library's object names."""
    return (
        re.sub(r"^.*?object at 0x[0-9a-f]+>?[:)]*\s*", "", str(error)).strip(" '()") or type(error).__name__
    )


def _refused(status: int, raw: bytes) -> QingLongError:
    try:
        problem = msgspec.json.decode(raw, type=Problem)
    except msgspec.MsgspecError:
        return Unavailable(
            "bad_reply", f"the answer (HTTP {status}) is not a ql server's", remedy="check --server"
        )
    kind = _KINDS.get(problem.exit_code, QingLongError)
    fields = "".join(f"\n  {': '.join(map(str, entry.values()))}" for entry in problem.fields)
    return kind(problem.code, problem.detail + fields, place=problem.place, remedy=problem.remedy)


__all__ = ["Client", "Query", "Reply", "lost_reply"]
