"""Work on its way from event loops to threads that each own a connection, and answers on their way back."""

from __future__ import annotations

import asyncio
import contextlib
import threading  # noqa: TID251 - this is the adapter
from collections.abc import Callable, Sequence
from queue import Empty, SimpleQueue
from typing import Any, Generic, NamedTuple, TypeVar

from qinglong.errors import Unavailable

W = TypeVar("W")


class Member(NamedTuple, Generic[W]):
    """A piece of work, and who waits for its result on which loop."""

    work: W
    future: asyncio.Future[Any]
    loop: asyncio.AbstractEventLoop
    after: Callable[[], None] | None = None
    """Called on the loop once the work is durable, also if nobody waits for the result any more."""


class Outcome(NamedTuple):
    """What became of a member: a result, or an error."""

    result: Any
    error: BaseException | None = None


class Inbox(Generic[W]):
    """A queue to one or more threads. Nothing is queued after its end: nobody would ever answer it."""

    def __init__(self, takers: int = 1) -> None:
        self._queue: SimpleQueue[Member[W] | None] = SimpleQueue()
        self._takers = takers
        self._closed = False
        self._closing = threading.Lock()

    @property
    def closed(self) -> bool:
        """Whether it takes nothing more."""
        return self._closed

    @property
    def waiting(self) -> int:
        """Members that no thread has taken yet."""
        return self._queue.qsize()

    async def submit(self, work: W, after: Callable[[], None] | None = None) -> Any:
        """Hand ``work`` over and wait for what becomes of it. Raises ``Unavailable`` when closed."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Any] = loop.create_future()
        with self._closing:
            if self._closed:
                raise Unavailable("ledger_closed", "the database is closed")
            self._queue.put(Member(work, future, loop, after))
        return await future

    def close(self) -> None:
        """Take nothing more; the threads finish what is queued and then see ``None``."""
        with self._closing:
            if not self._closed:
                self._closed = True
                for _ in range(self._takers):
                    self._queue.put(None)

    def take(self, timeout_s: float | None = None) -> Member[W] | None:
        """The next member, waiting for it; ``None`` at the end. Raises ``queue.Empty`` after ``timeout_s``."""
        return self._queue.get(timeout=timeout_s)

    def take_more(self, group: list[Member[W]], most: int) -> bool:
        """Add what waits, up to ``most`` members; whether the end was seen."""
        while len(group) < most:
            try:
                more = self._queue.get_nowait()
            except Empty:
                return False
            if more is None:
                return True
            group.append(more)
        return False


_Delivery = tuple[Member[Any], Outcome]


def _deliver(deliveries: list[_Delivery]) -> None:
    for member, (result, error) in deliveries:
        if error is None and member.after is not None:
            member.after()
        if member.future.done():
            continue
        if error is None:
            member.future.set_result(result)
        else:
            member.future.set_exception(error)


def resolve(group: Sequence[Member[Any]], outcomes: Sequence[Outcome]) -> None:
    """Answer everybody, each on the loop that asked."""
    loops: dict[asyncio.AbstractEventLoop, list[_Delivery]] = {}
    for member, outcome in zip(group, outcomes, strict=True):
        loops.setdefault(member.loop, []).append((member, outcome))
    for loop, deliveries in loops.items():
        with contextlib.suppress(RuntimeError):  # the loop was closed: nobody waits any more
            loop.call_soon_threadsafe(_deliver, deliveries)
