"""Serving an ASGI application over TCP without waking while nobody calls.

The socket is bound before anything else, so that "address in use" is said at once; the profile owns signals,
starts the server and stops it within bounds. See ``connection.py`` for why uvicorn's own ``Server`` is not used.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
import ssl
from contextlib import suppress
from typing import Final, NamedTuple, Protocol, cast

from starlette.types import Receive, Scope, Send
from uvicorn._types import ASGIApplication
from uvicorn.config import Config

from qinglong.api import bounds
from qinglong.api.connection import Connection, ServerState
from qinglong.effects import Clock, SystemClock
from qinglong.errors import Unavailable

LOG: Final = logging.getLogger("qinglong.api")
_LAST_WAIT_S: Final = 0.5
"""What a cancelled request, and then a closed socket, get to end."""


class App(Protocol):
    """An ASGI application that can be told that the server stops."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None: ...

    def close(self) -> None:
        """End every wait."""
        ...


class Bound(NamedTuple):
    """A listening socket with its real address."""

    socket: socket.socket
    host: str
    port: int

    @property
    def url(self) -> str:
        """Where clients find it."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}"


def bind(host: str, port: int) -> Bound:
    """Take the address; port 0 takes a free one.

    Raises ``Unavailable``: ``address_in_use``, ``address_forbidden`` or ``address_unusable``.
    """
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except OSError as error:
        raise _unusable(host, port, error) from None
    listening = socket.socket(family, kind, protocol)
    try:
        listening.setblocking(False)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        listening.bind(address)
        # Two sockets may bind one address with SO_REUSEADDR; only one may listen.
        listening.listen(bounds.BACKLOG)
    except OSError as error:
        listening.close()
        raise _unusable(host, port, error) from None
    name = listening.getsockname()
    return Bound(listening, name[0], name[1])


def _unusable(host: str, port: int, error: OSError) -> Unavailable:
    place = f"{host}:{port}"
    if error.errno == errno.EADDRINUSE:
        remedy = f"stop the other one (`ss -ltnp 'sport = :{port}'` names it) or choose another port"
        return Unavailable("address_in_use", f"another program listens on {place}", remedy=remedy)
    if error.errno in {errno.EACCES, errno.EPERM}:
        remedy = "ports below 1024 need a privilege: choose a higher one"
        return Unavailable("address_forbidden", f"not allowed to listen on {place}", remedy=remedy)
    remedy = "choose an address of this machine, such as 127.0.0.1"
    return Unavailable("address_unusable", f"cannot listen on {place}: {error.strerror}", remedy=remedy)


class Server:
    """An application behind a bound socket. ``start`` once, then ``stop`` once; both on the running loop."""

    def __init__(
        self,
        app: App,
        bound: Bound,
        clock: Clock | None = None,
        *,
        tls: ssl.SSLContext | None = None,
        connections: int = bounds.CONNECTIONS,
    ) -> None:
        self._app = app
        self.bound = bound
        self._tls = tls
        self.state = ServerState(clock or SystemClock(), connections)
        self._listener: asyncio.Server | None = None

    @property
    def port(self) -> int:
        """The real port, also where 0 was asked for."""
        return self.bound.port

    @property
    def url(self) -> str:
        """Where clients find it."""
        return self.bound.url if self._tls is None else self.bound.url.replace("http:", "https:", 1)

    async def start(self) -> None:
        """Begin to accept connections. No signal handler, no periodic timer, no access log."""
        loop = asyncio.get_running_loop()
        config = Config(
            cast(ASGIApplication, self._app),
            http=Connection,
            ws="none",
            lifespan="off",
            interface="asgi3",
            workers=1,
            log_config=None,
            access_log=False,
            proxy_headers=False,
            server_header=False,
            date_header=False,  # ours: see ServerState
            timeout_keep_alive=bounds.KEEP_ALIVE_MS // 1000,
        )
        config.load()

        def connection() -> Connection:
            return Connection(config, self.state, {}, loop)

        self._listener = await loop.create_server(
            connection,
            sock=self.bound.socket,
            backlog=bounds.BACKLOG,
            ssl=self._tls,
            # As long as a plain connection may take for its first request's head.
            ssl_handshake_timeout=None if self._tls is None else bounds.HEAD_MS / 1000,
            ssl_shutdown_timeout=None if self._tls is None else _LAST_WAIT_S,
        )

    async def stop(self, grace_ms: int = bounds.STOP_MS) -> None:
        """Accept nothing new, end waits at once, let requests in progress finish for ``grace_ms``, then cut.

        Ends within ``grace_ms`` and about two seconds; never raises for what a client does.
        """
        if self._listener is None:
            self.bound.socket.close()
            return
        self._listener.close()
        self._app.close()
        for connection in list(self.state.connections):
            connection.shutdown()
        if not await self._drained(grace_ms / 1000):
            LOG.warning("stopping: %d request(s) were cut off", len(self.state.tasks))
            for task in list(self.state.tasks):
                task.cancel()
            await self._drained(_LAST_WAIT_S)
        for connection in list(self.state.connections):
            connection.transport.abort()
        await self._drained(_LAST_WAIT_S)
        with suppress(TimeoutError):
            await asyncio.wait_for(self._listener.wait_closed(), _LAST_WAIT_S)
        self.bound.socket.close()

    async def _drained(self, wait_s: float) -> bool:
        """Whether every request ended and every connection closed within ``wait_s``."""
        state = self.state
        try:
            async with asyncio.timeout(wait_s):
                while state.tasks:
                    await asyncio.wait(set(state.tasks))
                while state.connections:
                    state.empty.clear()
                    await state.empty.wait()
        except TimeoutError:
            return False
        return True


async def serve(app: App, host: str, port: int, clock: Clock | None = None) -> Server:
    """Bind and start in one step. Raises ``Unavailable`` like :func:`bind`."""
    server = Server(app, bind(host, port), clock)
    await server.start()
    return server
