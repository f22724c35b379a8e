"""Wake-ups inside one process: hints from commits to whoever waits. Hints only; a lost one costs time."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import Callable, Iterator

from qinglong.domain import placement
from qinglong.ledger.port import Hints
from qinglong.limits import PLACEMENTS, PULLS_WOKEN


class Pulling:
    """A worker's pull that waits for work."""

    def __init__(self, worker: str, capabilities: dict[str, str], slots: int) -> None:
        self.worker = worker
        self.capabilities = capabilities
        self.slots = slots
        self.left = slots
        """Slots that no hint has been spent on since it looked last."""
        self.event = asyncio.Event()

    def wake(self) -> None:
        """Make it look."""
        self.event.set()

    def looks(self) -> None:
        """It looks now: what comes from here on wakes it again."""
        self.event.clear()
        self.left = self.slots


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
    """Fans the ledger's hints out: to pulls that wait for work, to people who follow a Run, to the cadence.

    A queued Run wakes one pull that could take it, the one that has waited longest: with hundreds of idle workers a
    Run must not make all of them ask.
    """

    def __init__(self) -> None:
        self._pulls: dict[Pulling, None] = {}
        self._followers: dict[str, set[asyncio.Event]] = {}
        self.placements: set[str] = set()
        """Placement keys that queued Runs have, as far as is known here."""
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
            for pull in self._pulls:
                if pull.worker in self.stops:
                    pull.wake()
        if hints.queued:
            self.queued(Counter(hints.queued))
        if hints.due_ms is not None:
            self.on_due(hints.due_ms)
        if hints.changed:
            self.on_change(hints.changed)
            for run_id in hints.changed:
                for event in self._followers.get(run_id, ()):
                    event.set()

    def waiting(self, placements: tuple[str, ...]) -> None:
        """A cycle saw queued Runs with these keys: a few pulls look again, in case a hint was lost."""
        self.placements = set(placements)
        self.queued(dict.fromkeys(placements, PULLS_WOKEN))

    def queued(self, placements: dict[str, int]) -> None:
        """So many Runs with these placement keys were queued."""
        if len(self.placements) < PLACEMENTS:
            self.placements.update(placements)
        for key, count in placements.items():
            self._offer(key, count)

    def _offer(self, key: str, count: int) -> None:
        for pull in self._pulls:
            if count <= 0:
                return
            if pull.left > 0 and not placement.missing(key, pull.capabilities):
                taken = min(pull.left, count)
                pull.left -= taken
                count -= taken
                pull.wake()

    def work(self) -> None:
        """Wake every pull that waits."""
        for pull in self._pulls:
            pull.wake()

    def satisfied(self, capabilities: dict[str, str]) -> tuple[str, ...]:
        """The placement keys that a worker may be offered; the empty key always."""
        return tuple({"", *(key for key in self.placements if not placement.missing(key, capabilities))})

    @contextlib.contextmanager
    def pulling(self, pull: Pulling) -> Iterator[None]:
        """Wake ``pull`` when there may be work. Listen first, then look: what comes in between is not missed."""
        self._pulls[pull] = None
        try:
            yield
        finally:
            del self._pulls[pull]

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
