"""The public HTTP API as an ASGI application (design section 13).

Each request passes, in this order: its host, its token, the route table, the route's permission, validation, the
handler. Without a good token everything but a health check is 401, whatever the path, its spelling or the
method, so that a stranger learns nothing; there are no redirects and no CORS.
"""

from __future__ import annotations

import asyncio
import logging
import platform
from collections import Counter
from http import HTTPStatus
from typing import Final

import msgspec
from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from qinglong import __version__
from qinglong.api import problems, reading
from qinglong.api.access import Grant, Tokens
from qinglong.api.body import Body
from qinglong.api.call import Answer, Call, Services
from qinglong.api.hosts import Hosts
from qinglong.api.routes import ROUTES
from qinglong.api.table import Route, Table
from qinglong.control.service import Control
from qinglong.effects import Clock, SystemClock
from qinglong.errors import Damaged, QingLongError, Unauthorised, Unavailable
from qinglong.wire.api import VersionInfo

LOG: Final = logging.getLogger("qinglong.api")
_NOBODY: Final = Grant("", frozenset({"public"}))
_SECURITY: Final = {"x-content-type-options": "nosniff", "cache-control": "no-store"}


class Api:
    """The application. ``host`` is what the server is bound to, ``names`` further host names to answer to.

    Raises ``Refused`` ``route_undeclared`` when a route declares no permission: it does not start.
    """

    def __init__(
        self,
        control: Control,
        tokens: Tokens,
        clock: Clock,
        about: VersionInfo,
        *,
        host: str = "127.0.0.1",
        names: tuple[str, ...] = (),
        routes: tuple[Route, ...] = ROUTES,
    ) -> None:
        self._table = Table(routes)
        self._tokens = tokens
        self._hosts = Hosts(host, names)
        self._counted: Counter[str] = Counter({"http.requests": 0, "http.unauthorised": 0, "http.errors": 0})
        self._services = Services(control, clock, about, self._figures)

    def close(self) -> None:
        """End every wait; requests in progress still get their answers."""
        self._services.closing.set()

    def _figures(self) -> dict[str, float]:
        return {**self._services.control.figures(), **self._counted}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request (ASGI 3)."""
        if scope["type"] != "http":
            raise RuntimeError(f"this application does not speak {scope['type']}")
        headers = Headers(scope=scope)
        body = Body(headers, receive)
        try:
            response = await self._respond(scope, headers, body)
            if not await body.settle():
                response.headers["connection"] = "close"
        except problems.ClientGone:
            return
        except asyncio.CancelledError:
            if not self._services.closing.is_set():
                raise
            # The stop's patience is over: end here, with an answer instead of a reset.
            response = problems.answer(Unavailable("stopping", "the server is stopping"))
            response.headers["connection"] = "close"
        response.headers.update(_SECURITY)
        await response(scope, receive, send)

    async def _respond(self, scope: Scope, headers: Headers, body: Body) -> Response:
        self._counted["http.requests"] += 1
        name = scope["method"]
        try:
            self._hosts.check(headers.getlist("host"))
            grant = self._tokens.grant(headers.getlist("authorization"))
            if grant is None and not self._table.is_public(scope["method"], scope["path"]):
                raise _no_token(headers)
            route, params = self._table.find(scope)
            name = f"{route.method} {route.path}"
            return await self._serve(route, params, grant or _NOBODY, scope, headers, body)
        except problems.ClientGone:
            raise
        except Exception as error:
            self._note(error, name)
            return problems.answer(error)

    async def _serve(
        self, route: Route, params: dict[str, str], grant: Grant, scope: Scope, headers: Headers, body: Body
    ) -> Response:
        if route.permission not in grant.permissions and route.permission != "public":
            raise problems.Forbidden(
                "permission_missing", f"this token lacks the permission {route.permission}"
            )
        query = reading.read_query(scope["query_string"], route.query)
        wish = None
        if route.request is not None:
            wish = reading.read_json(await body.read(), route.request)
        key = reading.read_key(headers.getlist("idempotency-key"))
        call = Call(self._services, grant, params, query, wish, key, body)
        return _response(route, await route.handler(call))

    def _note(self, error: Exception, name: str) -> None:
        """Count every refusal and fault; log the faults (I9)."""
        if isinstance(error, Unauthorised):
            self._counted["http.unauthorised"] += 1
        if not isinstance(error, QingLongError):
            self._counted["http.errors"] += 1
            LOG.error("a request failed", exc_info=error, extra={"request": name})
        elif isinstance(error, Damaged) or error.status == HTTPStatus.INTERNAL_SERVER_ERROR:
            self._counted["http.errors"] += 1
            LOG.error("a request failed: %s", error, extra={"request": name, "code": error.code})


def build(
    control: Control,
    token: str,
    *,
    profile: str,
    host: str = "127.0.0.1",
    names: tuple[str, ...] = (),
    clock: Clock | None = None,
    sqlite: str = "",
    schema: int = 0,
    data: str = "",
) -> Api:
    """The API of one process with one local token; the last three are what ``/api/v1/version`` tells."""
    about = VersionInfo(__version__, profile, platform.python_version(), sqlite, schema, data)
    return Api(control, Tokens.local(token), clock or SystemClock(), about, host=host, names=names)


def _no_token(headers: Headers) -> Unauthorised:
    if "authorization" in headers:
        return Unauthorised(
            "token_unknown",
            "the token is not one of ours",
            remedy="read it from the data folder's token file",
        )
    return Unauthorised("token_missing", "this needs a token", remedy="send 'Authorization: Bearer <token>'")


def _response(route: Route, answer: Answer) -> Response:
    if isinstance(answer.body, bytes):
        return Response(answer.body, answer.status, headers=answer.headers, media_type=answer.media)
    if route.response is None or not isinstance(answer.body, route.response):
        raise Damaged("answer_undeclared", f"{route.method} {route.path} answered with something undeclared")
    body = msgspec.json.encode(answer.body)
    return Response(body, answer.status, headers=answer.headers, media_type=answer.media)
