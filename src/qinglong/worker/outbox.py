"""Reports on their way: kept until answered, whatever happens to a reply (replaying any report is harmless)."""

from __future__ import annotations

import asyncio

import msgspec

from qinglong.limits import REPORTS_PER_SYNC
from qinglong.wire.worker import Answer, Report


class Pending(msgspec.Struct):
    """One report and who waits for its answer."""

    report: Report
    answer: asyncio.Future[Answer]


class Outbox:
    """First in, first out; the agent takes what fits into one sync."""

    def __init__(self, poke: asyncio.Event) -> None:
        self._waiting: list[Pending] = []
        self._poke = poke

    def __len__(self) -> int:
        return len(self._waiting)

    def post(self, report: Report) -> asyncio.Future[Answer]:
        """Send it with the next sync; the future has the answer, and may be ignored."""
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._waiting.append(Pending(report, answer))
        self._poke.set()
        return answer

    def take(self) -> list[Pending]:
        """What goes into the next sync."""
        taken, self._waiting = self._waiting[:REPORTS_PER_SYNC], self._waiting[REPORTS_PER_SYNC:]
        return taken

    def put_back(self, taken: list[Pending]) -> None:
        """No answer came: the same reports go first next time."""
        self._waiting[:0] = taken
