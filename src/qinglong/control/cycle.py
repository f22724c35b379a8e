"""One cycle: recover, retry, trigger, in this order, always (D4). Frontier and admit join with workflows."""

from __future__ import annotations

import logging

from qinglong.control.deps import Budgets, Deps
from qinglong.control.door import Door
from qinglong.control.gap import Gap
from qinglong.control.steps.recover import Recover
from qinglong.control.steps.retry import Retry
from qinglong.control.steps.trigger import TriggerStep
from qinglong.control.wakes import Wakes

log = logging.getLogger("qinglong.cycle")


class Cycle:
    """The coordinator: owns no timer, pool, connection, cursor or per-Run state."""

    def __init__(self, deps: Deps, budgets: Budgets, door: Door, wakes: Wakes) -> None:
        self._deps = deps
        self._door = door
        self._wakes = wakes
        self._pause_ms = budgets.cadence_ms
        self.gap = Gap(deps.clock, deps.times.lease_ms)
        self.recover = Recover(deps, budgets.recover_page)
        self.retry = Retry(deps, budgets.retry_page)
        self.trigger = TriggerStep(deps, budgets.trigger_page)
        self.outcomes = {"ok": 0, "failed": 0}

    async def run(self) -> tuple[bool, int | None]:
        """One pass: (whether a follow-up is asked for, the next moment in UTC ms). An idle pass costs one read.

        A pass that did something asks for a follow-up: there may be more, and what was due hid the moment after it.

        A failure of step 1 or 2 shuts the door and ends the cycle (I7); one of step 3 is logged alone.
        """
        again = False
        self._door.cycle_begun()
        try:
            due = await self._deps.ledger.due()
            if due.recover:
                again |= await self.recover.step(hold_claimed=self.gap.lasts)
            if due.retry:
                again |= await self.retry.step()
        except Exception as error:
            self._door.cycle_failed(str(error) or type(error).__name__)
            self.outcomes["failed"] += 1
            log.exception("the cycle failed in recovery or retry; no offers until one succeeds")
            return False, self._soon(None)
        if self._door.cycle_ok():
            self._wakes.work()
        self._wakes.waiting(due.offers)
        if due.trigger and self._door.is_open:
            again |= await self._triggered()
        self.outcomes["ok"] += 1
        busy = due.recover or due.retry or due.trigger
        return again, self._soon(due.next_ms) if busy else due.next_ms

    def _soon(self, next_ms: int | None) -> int:
        """What was due may still be (a held claim, a shut door, a failure): look again within one pause."""
        soon = self._deps.clock.wall_ms() + self._pause_ms
        return soon if next_ms is None else min(soon, next_ms)

    async def _triggered(self) -> bool:
        try:
            return await self.trigger.step()
        except Exception:
            log.exception("the trigger step failed; its occurrences stay due")
            return False
