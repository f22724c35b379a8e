"""The worker's way to the control plane: in one process, or over HTTPS. Design section 6."""

from __future__ import annotations

import asyncio
from typing import Protocol

from qinglong.wire.worker import LogAck, LogPart, Register, Registered, Reply, Sync


class Link(Protocol):
    """Calls raise ``Unavailable`` or ``Unknown`` when no answer came: repeat the same call."""

    async def register(self, said: Register) -> Registered: ...

    async def sync(self, request: Sync, poke: asyncio.Event) -> Reply:
        """Waits up to ``request.wait_ms`` for something to say; returns early, if it can, once ``poke`` is set."""
        ...

    async def transition(self, session_id: str, generation: int, state: str) -> None: ...


class LogLink(Protocol):
    """The way to a log store; where the worker's files are the store (ADR 0014) there is none."""

    async def log(self, part: LogPart, body: bytes) -> LogAck:
        """Send a piece of at most ``LOG_PART_BYTES``; no bytes at all ask how far the store is.

        A log is sealed by ``part.seal``, in the same request as its last piece or after it: a seal alone would not
        say whose it is. Raises ``Unavailable`` or ``Unknown`` when no answer came; sending it again is harmless.
        """
        ...
