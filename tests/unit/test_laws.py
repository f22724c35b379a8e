"""The laws of the kernel over a ledger in memory: I1 to I5, I8, gates, attempts, and that every Run ends."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

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


Machine.TestCase.settings = settings(max_examples=60, stateful_step_count=60)
TestLaws = Machine.TestCase


@pytest.mark.parametrize("first", range(0, 800, 100))
def test_random_walks_keep_every_law_and_every_run_ends(first):
    """Longer ways than a search for short ones finds; ``walk(MemoryLaws(), seed, 120)`` repeats one."""
    for seed in range(first, first + 100):
        walk(MemoryLaws(), seed, 120)
