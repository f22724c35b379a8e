"""Workers' requests that wait at this replica: at most one a worker, each can be made to return."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from typing import NamedTuple

from qinglong.errors import Unavailable
from qinglong.limits import WORKER_POLLS, WORKERS_CAP


class _Poll(NamedTuple):
    session_id: str
    seq: int
    poke: asyncio.Event


class Polls:
    """A newer request of a worker ends the wait of its older one: the older one's sender has gone."""

    def __init__(self) -> None:
        self._polls: dict[str, _Poll] = {}
        self._woken: dict[str, tuple[str, int]] = {}
        """(session, sequence number) of wakes that came before what they are to wake."""
        self._closed = False
        self.waiting = 0
        """Requests that may be waiting now."""

    @contextlib.contextmanager
    def poll(self, worker: str, session_id: str, seq: int, *, waits: bool) -> Iterator[asyncio.Event]:
        """An event that ends the wait of the request within.

        Raises ``Unavailable`` (``too_many_polls``) for one that would wait, if too many do.
        """
        if waits and self.waiting >= WORKER_POLLS:
            raise Unavailable("too_many_polls", "too many workers wait here", remedy="try again")
        mine = _Poll(session_id, seq, asyncio.Event())
        older = self._polls.get(worker)
        if older is not None:
            older.poke.set()
        woken = self._woken.pop(worker, None)
        if self._closed or (woken is not None and woken[0] == session_id and seq <= woken[1]):
            mine.poke.set()
        self._polls[worker] = mine
        self.waiting += 1
        try:
            yield mine.poke
        finally:
            self.waiting -= 1
            if self._polls.get(worker) is mine:
                del self._polls[worker]

    def wake(self, worker: str, session_id: str, seq: int) -> bool:
        """Make the Session's requests up to this number return; whether one was there.

        Where none is, it may be on its way: then it will not wait.
        """
        found = self._polls.get(worker)
        if found is not None and found.session_id == session_id and found.seq >= seq:
            found.poke.set()
            return True
        self._woken.pop(worker, None)
        self._woken[worker] = (session_id, seq)
        if len(self._woken) > WORKERS_CAP:
            del self._woken[next(iter(self._woken))]
        return False

    def close(self) -> None:
        """End every wait, also those to come."""
        self._closed = True
        for poll in self._polls.values():
            poll.poke.set()
