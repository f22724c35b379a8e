"""Wake-ups inside one process: hints from commits to whoever waits. Hints only; a lost one costs time."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator

from qinglong.ledger.port import Hints


class Follower:
    """Somebody who waits for one Run's next Event."""

    def __init__(self, event: asyncio.Event, close: Callable[[], None]) -> None:
        self._event = event
        self.close = close

    async def wait(self, timeout_s: float) -> None:
        """Return when an Event came since this follower was made, or after the time."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self._event.wait()


class Wakes:
    """Fans the ledger's hints out: to pulls that wait for work, to people who follow a Run, to the cadence."""

    def __init__(self) -> None:
        self._work: set[asyncio.Event] = set()
        self._followers: dict[str, set[asyncio.Event]] = {}
        self.stops: set[str] = set()
        """Workers that may have a stop directive waiting."""
        self.skipped: dict[str, int] = {}
        """Occurrences that this process skipped, by reason (I9)."""
        self.on_due: Callable[[int], None] = lambda due_ms: None
        self.on_change: Callable[[tuple[str, ...]], None] = lambda run_ids: None

    def hint(self, hints: Hints) -> None:
        """Called by the ledger after a commit."""
        for reason, count in hints.skipped:
            self.skipped[reason] = self.skipped.get(reason, 0) + count
        if hints.stops:
            self.stops.update(hints.stops)
        if hints.queued or hints.stops:
            self.work()
        if hints.due_ms is not None:
            self.on_due(hints.due_ms)
        if hints.changed:
            self.on_change(hints.changed)
            for run_id in hints.changed:
                for event in self._followers.get(run_id, ()):
                    event.set()

    def work(self) -> None:
        """Wake every pull that waits."""
        for event in self._work:
            event.set()

    @contextlib.contextmanager
    def listening(self, poke: asyncio.Event) -> Iterator[None]:
        """Set ``poke`` when there may be work. Listen first, then look: what comes in between is not missed."""
        self._work.add(poke)
        try:
            yield
        finally:
            self._work.discard(poke)

    def follow(self, run_id: str) -> Follower:
        """A waiter for the Run's next Event; close it."""
        event = asyncio.Event()
        self._followers.setdefault(run_id, set()).add(event)
        return Follower(event, lambda: self._unfollow(run_id, event))

    def _unfollow(self, run_id: str, event: asyncio.Event) -> None:
        followers = self._followers.get(run_id, set())
        followers.discard(event)
        if not followers:
            self._followers.pop(run_id, None)
