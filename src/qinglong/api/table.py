"""The shape of the route table, and its checks: what is not declared is not served (default deny).

The table drives authorisation, validation and the reference in ``docs/api.md``.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

import msgspec
from starlette.routing import Match
from starlette.routing import Route as Matcher
from starlette.types import Scope

from qinglong.api.access import PERMISSIONS, Permission
from qinglong.api.call import Handler
from qinglong.api.problems import WrongMethod, no_path
from qinglong.errors import Refused

_PLAIN: Final = re.compile(rb"(?:/[A-Za-z0-9][A-Za-z0-9_.-]*)+")
"""How a served path is spelled. Names need no escapes, so no other spelling of a path exists: no ``%``, ``;``,
``//``, dot segment or trailing slash that a proxy and we could read differently."""
_PUBLIC: Final = frozenset({"/healthz", "/readyz"})


class Route(NamedTuple):
    """One row. ``query``, ``request`` and ``response`` are the structs of parameters and bodies."""

    method: str
    path: str
    permission: Permission | None
    handler: Handler
    summary: str
    query: type[msgspec.Struct] | None = None
    request: type[msgspec.Struct] | None = None
    response: type[msgspec.Struct] | None = None
    """``None``: not JSON."""


class Table:
    """The routes of an application, checked.

    Raises ``Refused`` ``route_undeclared`` for a route without a known permission, or public without being a
    health check, or declared twice: such an application does not start.
    """

    def __init__(self, routes: tuple[Route, ...]) -> None:
        seen: set[tuple[str, str]] = set()
        for route in routes:
            _check(route, seen)
        self._matchers = tuple(
            (Matcher(route.path, route.handler, methods=[route.method]), route) for route in routes
        )
        self._public = frozenset(route.path for route in routes if route.permission == "public")

    def is_public(self, method: str, path: str) -> bool:
        """Whether a request needs no token: a health check, spelled and meant as one."""
        return method in {"GET", "HEAD"} and path in self._public

    def find(self, scope: Scope) -> tuple[Route, dict[str, str]]:
        """The route of a request, and its path parameters.

        Raises ``BadRequest`` 404 ``path_unknown``, ``WrongMethod`` 405.
        """
        if not _PLAIN.fullmatch(scope.get("raw_path") or scope["path"].encode()):
            raise no_path()
        allowed: list[str] = []
        for matcher, route in self._matchers:
            match, found = matcher.matches(scope)
            if match is Match.FULL:
                return route, found["path_params"]
            if match is Match.PARTIAL:
                allowed += sorted(matcher.methods or ())
        if allowed:
            raise WrongMethod(tuple(allowed))
        raise no_path()


def _check(route: Route, seen: set[tuple[str, str]]) -> None:
    name = f"{route.method} {route.path}"
    if route.permission not in PERMISSIONS:
        raise Refused("route_undeclared", f"{name} declares no permission", remedy="declare one in its row")
    if route.permission == "public" and (route.path not in _PUBLIC or route.method != "GET"):
        raise Refused("route_undeclared", f"{name} must not be public", remedy="declare a permission")
    if (route.method, route.path) in seen:
        raise Refused("route_undeclared", f"{name} is declared twice")
    seen.add((route.method, route.path))
