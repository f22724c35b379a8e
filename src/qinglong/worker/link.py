"""The worker's way to the control plane: in one process, or over HTTPS later. Design section 6."""

from __future__ import annotations

import asyncio
from typing import Protocol

from qinglong.wire.worker import Register, Registered, Reply, Sync


class Link(Protocol):
    """Calls raise ``Unavailable`` or ``Unknown`` when no answer came: repeat the same call."""

    async def register(self, said: Register) -> Registered: ...

    async def sync(self, request: Sync, poke: asyncio.Event) -> Reply:
        """Waits up to ``request.wait_ms`` for something to say; returns early, if it can, once ``poke`` is set."""
        ...

    async def transition(self, session_id: str, generation: int, state: str) -> None: ...
