"""A request's body: read whole within its limits, or thrown away so that the client still sees its answer."""

from __future__ import annotations

import asyncio
from http import HTTPStatus

from starlette.datastructures import Headers
from starlette.types import Receive

from qinglong.api.bounds import BODY_MS, DISCARD_BYTES, DISCARD_MS
from qinglong.api.problems import BadRequest, ClientGone
from qinglong.limits import REQUEST_BYTES

_JSON = "application/json"


class Body:
    """What the client sends after its headers. Also tells when the client has gone away."""

    def __init__(self, headers: Headers, receive: Receive) -> None:
        self._headers = headers
        self._receive = receive
        length = headers.get("content-length", "0")
        self._length = int(length) if length.isascii() and length.isdigit() else 0
        self._complete = self._length == 0 and "transfer-encoding" not in headers

    async def read(self) -> bytes:
        """The body as JSON text; empty when there is none.

        Raises ``BadRequest``: 408 ``body_too_slow``, 413 ``body_too_large`` (also without a length), 415
        ``body_not_json``; ``ClientGone``.
        """
        if self._complete:
            return b""
        if self._length > REQUEST_BYTES:
            raise _too_large()
        self._check_type()
        try:
            async with asyncio.timeout(BODY_MS / 1000):
                return await self._collect()
        except TimeoutError:
            raise BadRequest(408, "body_too_slow", f"the body took longer than {BODY_MS} ms") from None

    def _check_type(self) -> None:
        kind = self._headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != _JSON or self._headers.get("content-encoding", "identity").lower() != "identity":
            raise BadRequest(
                415,
                "body_not_json",
                "the body must be JSON, not compressed",
                place="header Content-Type",
                remedy=f"send 'Content-Type: {_JSON}'",
            )

    async def _collect(self) -> bytes:
        parts = bytearray()
        while not self._complete:
            parts += await self._piece()
            if len(parts) > REQUEST_BYTES:
                raise _too_large()
        return bytes(parts)

    async def _piece(self) -> bytes:
        message = await self._receive()
        if message["type"] != "http.request":
            raise ClientGone
        self._complete = not message.get("more_body", False)
        piece: bytes = message.get("body", b"")
        return piece

    async def settle(self) -> bool:
        """Throw the rest away, within bounds. False: there is more, so the connection must be closed.

        Closing a connection on unread bytes resets it, and the client may lose the answer that says why. A client
        that waits for ``100 Continue`` has sent nothing yet and must not be asked for it.
        """
        if self._complete:
            return True
        if "expect" in self._headers:
            return False
        left = DISCARD_BYTES
        try:
            async with asyncio.timeout(DISCARD_MS / 1000):
                while not self._complete and left > 0:
                    left -= len(await self._piece())
        except TimeoutError:
            return False
        return self._complete

    async def gone(self) -> None:
        """Return when the client has closed the connection."""
        while (await self._receive())["type"] == "http.request":
            pass


def _too_large() -> BadRequest:
    message = f"the body is larger than {REQUEST_BYTES} bytes"
    return BadRequest(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "body_too_large", message)
