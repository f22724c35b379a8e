"""How a server of one process stops: orderly first, then with its jobs (design section 7)."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable

from qinglong.profiles.node import Node
from qinglong.profiles.signals import Signals

_GIVE_UP_S = 30.0
"""How long a stop of jobs may take beyond their grace."""


async def stop(node: Node, signals: Signals, drain_ms: int, say: Callable[[str], None]) -> None:
    """Start nothing new, wait ``drain_ms``, leave the rest to their keepers and say so.

    As pid 1 the jobs would die with us, unasked: they are stopped instead, with their grace.
    """
    count = node.agent.running
    alone = os.getpid() == 1
    if count and not alone:
        say(f"stopping: waiting up to {drain_ms / 1000:g} s for {count} job(s); again to stop them too")
    drained = asyncio.ensure_future(node.drain(0 if alone else drain_ms))
    killed = asyncio.ensure_future(_set(signals.kill))
    await asyncio.wait({drained, killed}, return_when=asyncio.FIRST_COMPLETED)
    if alone or signals.kill.is_set():
        say(f"stopping {node.agent.running} job(s)")
        node.agent.stop_all("shutdown")
        await asyncio.wait({drained})
        await node.drain(int(node.agent.longest_grace_ms + _GIVE_UP_S * 1000))
    killed.cancel()
    await drained
    left = node.agent.running
    if left:
        say(f"{left} job(s) go on under their keepers; the next `ql up` on {node.data} takes them over")


async def _set(event: asyncio.Event) -> None:
    await event.wait()
