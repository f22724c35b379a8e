"""The cadence: exactly one timer, one cycle at a time, requests coalesced (D4, design section 8)."""

from __future__ import annotations

import asyncio
import contextlib

from qinglong.control.cycle import Cycle
from qinglong.effects import Clock

_NEXT_LOOK_MS = 30_000
"""Longest sleep: a stepped wall clock is noticed this soon at the latest, without touching the ledger."""

OVERSLEPT_MS = 10_000
"""A sleep that took so much longer than planned: the machine or this process was suspended."""


class Cadence:
    """Sleeps until the next due moment. A request during a cycle is coalesced into one follow-up."""

    def __init__(self, cycle: Cycle, clock: Clock) -> None:
        self._cycle = cycle
        self._clock = clock
        self._wake = asyncio.Event()
        self._due_ms: int | None = None
        self._requested = True
        self._stopping = False
        self.cycles = 0
        """Cycles so far."""

    def request(self) -> None:
        """Ask for a cycle soon."""
        self._requested = True
        self._wake.set()

    def due_at(self, due_ms: int) -> None:
        """A commit made something due at this UTC moment."""
        if self._due_ms is None or due_ms < self._due_ms:
            self._due_ms = due_ms
            self._wake.set()

    def stop(self) -> None:
        """Finish the cycle that runs, start no other."""
        self._stopping = True
        self._wake.set()

    async def run(self) -> None:
        """Until stopped."""
        while not self._stopping:
            if self._requested or self._is_due():
                await self._pass()
                continue
            await self._sleep()

    async def _sleep(self) -> None:
        self._wake.clear()
        planned, began = self._sleep_ms(), self._clock.boot_ms()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(planned / 1000):
                await self._wake.wait()
        if self._clock.boot_ms() - began > planned + OVERSLEPT_MS:
            self._cycle.gap.noticed()

    async def _pass(self) -> None:
        self._requested = False
        self._due_ms = None
        self.cycles += 1
        again, next_ms = await self._cycle.run()
        if next_ms is not None:
            self.due_at(next_ms)
        if again:
            self._requested = True

    def _is_due(self) -> bool:
        return self._due_ms is not None and self._due_ms <= self._clock.wall_ms()

    def _sleep_ms(self) -> int:
        if self._due_ms is None:
            return _NEXT_LOOK_MS
        return min(max(self._due_ms - self._clock.wall_ms(), 1), _NEXT_LOOK_MS)
