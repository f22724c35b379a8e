"""A request's body: read whole within its limits, or thrown away so that the client still sees its answer."""

from __future__ import annotations

import asyncio
from http import HTTPStatus

from starlette.datastructures import Headers
from starlette.types import Receive

from qinglong.api.bounds import BODY_MS, DISCARD_BYTES, DISCARD_MS
from qinglong.api.problems import BadRequest, ClientGone
from qinglong.limits import REQUEST_BYTES

JSON = "application/json"
OCTETS = "application/octet-stream"


class Body:
    """What the client sends after its headers. Also tells when the client has gone away."""

    def __init__(self, headers: Headers, receive: Receive) -> None:
        self._headers = headers
        self._receive = receive
        length = headers.get("content-length", "0")
        self._length = int(length) if length.isascii() and length.isdigit() else 0
        self._complete = self._length == 0 and "transfer-encoding" not in headers

    async def read(self, limit: int = REQUEST_BYTES, kind: str = JSON) -> bytes:
        """The body, at most ``limit`` bytes of the media type ``kind``; empty when there is none.

        Raises ``BadRequest``: 408 ``body_too_slow``, 413 ``body_too_large`` (also without a length), 415
        ``body_not_json`` or ``body_not_bytes``; ``ClientGone``.
        """
        if self._complete:
            return b""
        if self._length > limit:
            raise _too_large(limit)
        self._check_type(kind)
        try:
            async with asyncio.timeout(BODY_MS / 1000):
                return await self._collect(limit)
        except TimeoutError:
            raise BadRequest(408, "body_too_slow", f"the body took longer than {BODY_MS} ms") from None

    def _check_type(self, wanted: str) -> None:
        kind = self._headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != wanted or self._headers.get("content-encoding", "identity").lower() != "identity":
            raise BadRequest(
                415,
                "body_not_json" if wanted == JSON else "body_not_bytes",
                f"the body must be {'JSON' if wanted == JSON else wanted}, not compressed",
                place="header Content-Type",
                remedy=f"send 'Content-Type: {wanted}'",
            )

    async def _collect(self, limit: int) -> bytes:
        parts = bytearray()
        while not self._complete:
            parts += await self._piece()
            if len(parts) > limit:
                raise _too_large(limit)
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


def _too_large(limit: int) -> BadRequest:
    message = f"the body is larger than {limit} bytes"
    return BadRequest(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "body_too_large", message)
