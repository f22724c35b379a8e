"""One request on its way to a handler, and what handlers give back."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

import msgspec

from qinglong.api.access import Grant
from qinglong.api.body import Body
from qinglong.api.problems import ClientGone
from qinglong.control.service import Control
from qinglong.effects import Clock
from qinglong.wire.api import VersionInfo

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Services:
    """What every handler may use."""

    control: Control
    clock: Clock
    about: VersionInfo
    figures: Callable[[], dict[str, float]]
    """This process' counters: the control plane's and the API's own."""
    closing: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the server stops: waits end at once."""


@dataclass(frozen=True, slots=True)
class Call:
    """An authorised and validated request. ``query`` and ``body`` are the route's declared structs."""

    services: Services
    grant: Grant
    path: dict[str, str]
    query: Any
    body: Any
    key: str
    """The ``Idempotency-Key``; empty if none."""
    incoming: Body

    async def patiently(self, waiting: Awaitable[T]) -> T | None:
        """Wait for ``waiting``; ``None`` when the server began to stop first.

        Raises ``ClientGone``: nobody waits any more. Whatever ends it, nothing goes on behind it.
        """
        wanted = asyncio.ensure_future(waiting)
        gone = asyncio.ensure_future(self.incoming.gone())
        closing = asyncio.ensure_future(self.services.closing.wait())
        tasks: tuple[asyncio.Future[Any], ...] = (wanted, gone, closing)
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            if wanted.done():
                return wanted.result()
            if gone.done():
                raise ClientGone
            return None
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


@dataclass(frozen=True, slots=True)
class Answer:
    """What a handler gives back: a struct (sent as JSON), or bytes with their media type."""

    body: msgspec.Struct | bytes
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    media: str = "application/json"


Handler = Callable[[Call], Awaitable[Answer]]
