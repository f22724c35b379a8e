"""The laws of the kernel over a ledger in memory: I1 to I5, I8, gates, attempts, and that every Run ends."""

from __future__ import annotations

import asyncio
import random
from collections import Counter

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from qinglong.wire.worker import Sync
from support.laws import Facts, Laws, walk
from support.memory import MemoryLedger, MemoryStore, drive


class MemoryLaws(Laws):
    def make(self, clock):
        return MemoryStore(clock)

    def drive(self, work):
        return drive(work)

    def facts(self):
        ledger: MemoryLedger = self.store.ledger
        late = Counter(key[:3] for key in ledger.late)
        return Facts(dict(ledger.aggregates), dict(ledger.attempts), ledger.events_of, dict(late))


class Machine(RuleBasedStateMachine):
    """Hypothesis looks for the shortest way to break a law."""

    def __init__(self):
        super().__init__()
        self.laws = None

    @initialize(data=st.data())
    def begin(self, data):
        self.laws = MemoryLaws()
        self.laws.begin(lambda options: data.draw(st.sampled_from(options)))

    @rule(data=st.data())
    def step(self, data):
        self.laws.step(lambda options: data.draw(st.sampled_from(options)))

    @invariant()
    def every_law_holds(self):
        if self.laws is not None:
            self.laws.check()

    def teardown(self):
        if self.laws is not None:
            self.laws.finish()


class Crowded(MemoryLedger):
    """Between any two questions to the ledger everybody else may have had a turn."""

    def __init__(self, clock, rng):
        super().__init__(clock)
        self.rng = rng

    def __getattribute__(self, name):
        found = super().__getattribute__(name)
        if name not in CROWDED:
            return found

        async def later(*values, **fields):
            for _ in range(self.rng.randrange(4)):
                await asyncio.sleep(0)
            return await found(*values, **fields)

        return later


CROWDED = {"transact", "due", "specs", "leases_of", "unstarted_of_removed", "task", "run"} | {
    f"{name}_page" for name in ("recover", "retry", "trigger", "offer")
}


class CrowdedLaws(MemoryLaws):
    """Whatever is asked for, the cycle's steps run at the same time, and messages come twice."""

    def __init__(self, seed):
        self.rng = random.Random(seed)
        self.loop = asyncio.new_event_loop()
        self.plane = None

    def make(self, clock):
        store = MemoryStore(clock)
        store.ledger = store.queries = Crowded(clock, self.rng)
        return store

    def drive(self, work):
        return self.loop.run_until_complete(self.among_others(work))

    async def among_others(self, work):
        found, *others = await asyncio.gather(work, *self.noise(), return_exceptions=True)
        for outcome in (*others, found):
            if isinstance(outcome, BaseException):
                raise outcome
        return found

    def noise(self):
        if self.plane is None:
            return
        cycle = self.plane.control.cycle
        steps = [cycle.recover.step, cycle.retry.step, cycle.trigger.step]
        for _ in range(self.rng.randrange(3)):
            yield self.rng.choice(steps)()
        if self.log and self.rng.randrange(2):
            mate, report = self.rng.choice(self.log[-5:])
            request = Sync(mate.session_id, mate.generation, 0, reports=(report,))
            yield self.plane.workers.sync(mate.name, request, asyncio.Event())

    def an_old_message_comes_again(self, choose):
        """It does all the time; and what else happens meanwhile, changes something."""

    def a_forged_message_comes(self, choose):
        """See there."""

    def end(self):
        self.loop.close()


Machine.TestCase.settings = settings(max_examples=60, stateful_step_count=60)
TestLaws = Machine.TestCase


@pytest.mark.parametrize("first", range(0, 480, 80))
def test_random_walks_keep_every_law_and_every_run_ends(first):
    """Longer ways than a search for short ones finds; ``walk(MemoryLaws(), seed, 120)`` repeats one."""
    for seed in range(first, first + 80):
        walk(MemoryLaws(), seed, 120)


@pytest.mark.parametrize("first", range(0, 100, 25))
def test_random_walks_in_a_crowd_keep_every_law(first):
    for seed in range(first, first + 25):
        walk(CrowdedLaws(seed), seed, 120)
