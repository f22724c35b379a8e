"""One HTTP/1.1 connection: uvicorn's httptools protocol, with the bounds that it lacks.

uvicorn's ``Server`` wakes ten times a second, for the Date header and to ask whether it should stop; an idle
process must not. This module and ``server.py`` therefore use its protocol class directly, with timers that exist
only while a client owes or is owed something. That is private API of uvicorn: ``tests/contract`` pins what is used.

Added here: an end for connections that send their headers slowly or never (RFC 9112 section 9.5), for heads
without end (RFC 6585 section 5), for clients that do not read their answers, and for too many of them.
"""

from __future__ import annotations

import asyncio
import logging
from email.utils import formatdate
from http import HTTPStatus
from typing import Any, Final

import msgspec
from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from qinglong.api import bounds
from qinglong.api.problems import MEDIA, BadRequest, problem_of
from qinglong.effects import Clock

LOG: Final = logging.getLogger("qinglong.api.http")


class ServerState:
    """What all connections share, by uvicorn's names: ``uvicorn.server.ServerState`` without its ticking Date."""

    def __init__(self, clock: Clock, most: int = bounds.CONNECTIONS) -> None:
        self.most = most
        """Open connections; the next one is answered 503."""
        self.total_requests = 0
        self.connections: set[Any] = set()
        self.tasks: set[asyncio.Task[None]] = set()
        self.empty = asyncio.Event()
        """Set whenever the last connection has gone."""
        self._clock = clock
        self._second = -1
        self._date: list[tuple[bytes, bytes]] = []

    @property
    def default_headers(self) -> list[tuple[bytes, bytes]]:
        """The Date of a response (RFC 9110 section 6.6.1), written at most once a second and only when asked."""
        second = self._clock.wall_ms() // 1000
        if second != self._second:
            self._second = second
            self._date = [(b"date", formatdate(second, usegmt=True).encode())]
        return self._date


class Connection(HttpToolsProtocol):
    """See the module. ``_await_head`` is true from the end of one request to the end of the next one's headers."""

    def __init__(
        self,
        config: Config,
        server_state: Any,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self.logger = LOG
        self._shared: ServerState = server_state
        self._await_head = True
        self._crossed = False
        """The present read ended a head or a request: its bytes are not counted as the next head's."""
        self._head_bytes = 0
        self._head_timer: asyncio.TimerHandle | None = None
        self._end_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """A client connected; it owes a request head."""
        super().connection_made(transport)
        if len(self.connections) > self._shared.most:
            self._refuse(503, "too_many_connections", "too many open connections; try again")
            return
        self._arm_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection is closed: no timer of it stays behind."""
        for timer in (self._head_timer, self._end_timer, self.timeout_keep_alive_task):
            if timer is not None:
                timer.cancel()
        super().connection_lost(exc)
        if not self.connections:
            self._shared.empty.set()

    def data_received(self, data: bytes) -> None:
        """Bytes came in; those of a head are counted and timed."""
        self._crossed = False
        super().data_received(data)
        if not self._await_head or self._crossed or self.transport.is_closing():
            return
        self._head_bytes += len(data)
        self._arm_head()
        if self._head_bytes > bounds.HEAD_BYTES:
            self._refuse(
                431, "head_too_large", f"the request's head is larger than {bounds.HEAD_BYTES} bytes"
            )

    def on_message_begin(self) -> None:
        """A request begins; pipelined ones are queued, within bounds."""
        if len(self.pipeline) >= bounds.PIPELINE:
            raise ValueError("too many requests sent ahead")
        self._arm_head()
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """The head is whole; the application judges the rest."""
        self._cross(await_head=False)
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """The request is whole; the next head is awaited, by the keep-alive timer until its first byte."""
        self._cross(await_head=True)
        super().on_message_complete()

    def _cross(self, *, await_head: bool) -> None:
        self._await_head = await_head
        self._crossed = True
        self._head_bytes = 0
        self._disarm_head()

    def on_response_complete(self) -> None:
        """The answer is written, though perhaps not yet taken."""
        super().on_response_complete()
        if self.transport.is_closing():
            self._end_soon()

    def shutdown(self) -> None:
        """The server stops: close if idle, else after the present answer."""
        super().shutdown()
        if self.transport.is_closing():
            self._end_soon()

    def timeout_keep_alive_handler(self) -> None:
        """Nothing came for a while."""
        super().timeout_keep_alive_handler()
        self._end_soon()

    def pause_writing(self) -> None:
        """The client does not take what is written."""
        super().pause_writing()
        self._end_soon()

    def resume_writing(self) -> None:
        """It does, after all."""
        super().resume_writing()
        if self._end_timer is not None and not self.transport.is_closing():
            self._end_timer.cancel()
            self._end_timer = None

    def send_400_response(self, msg: str) -> None:
        """The parser gave up."""
        self._refuse(400, "http_malformed", "this is not an HTTP/1.1 request")

    def _unsupported_upgrade_warning(self) -> None:
        """An Upgrade that we do not speak is ignored, as RFC 9110 section 7.8 allows, and not worth a log line."""

    def _arm_head(self) -> None:
        if self._head_timer is None:
            self._head_timer = self.loop.call_later(bounds.HEAD_MS / 1000, self._head_late)

    def _disarm_head(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _head_late(self) -> None:
        self._head_timer = None
        if self._answering():
            # We are the slow side: reading is paused until the present answer is written.
            self._arm_head()
        else:
            self._refuse(408, "head_too_slow", f"the request's head took longer than {bounds.HEAD_MS} ms")

    def _answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _refuse(self, status: int, code: str, message: str) -> None:
        """Answer without the application and close."""
        self._disarm_head()
        if self.transport.is_closing():
            return
        if self._answering():
            # An answer in progress has no room for another one.
            self.transport.abort()
            return
        body = msgspec.json.encode(problem_of(BadRequest(status, code, message)))
        date = b"".join(b"%s: %s\r\n" % pair for pair in self._shared.default_headers)
        self.transport.write(
            b"HTTP/1.1 %d %s\r\n%scontent-type: %s\r\ncontent-length: %d\r\nconnection: close\r\n\r\n%s"
            % (status, HTTPStatus(status).phrase.encode(), date, MEDIA.encode(), len(body), body)
        )
        self.transport.close()
        self._end_soon()

    def _end_soon(self) -> None:
        """A client that does not take what is written loses its connection."""
        if self._end_timer is None:
            self._end_timer = self.loop.call_later(bounds.TAKE_MS / 1000, self.transport.abort)
