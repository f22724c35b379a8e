"""The rows that make an open Run findable: derived from it alone."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from qinglong.domain import states
from qinglong.domain.index import QueueRow, due_ms, queue_row
from qinglong.domain.records import Intent
from support.builders import admitted, spec
from support.clock import T0

RUN = admitted(spec(start_within_ms=50, deadline_ms=90)).run


@pytest.mark.parametrize("state", sorted(states.RUN))
def test_only_a_queued_run_may_be_offered(state):
    row = queue_row(replace(RUN, state=state))
    assert (row is not None) == (state == "queued")


def test_higher_priority_comes_first_then_the_older_run():
    rows = [
        queue_row(replace(RUN, run_id=name, priority=priority))
        for name, priority in (("a", 0), ("b", 5), ("c", 5), ("d", -1))
    ]
    assert [row.run_id for row in sorted(rows)] == ["b", "c", "a", "d"]
    assert queue_row(replace(RUN, available_ms=7)) == QueueRow("", 0, RUN.run_id, 7)


@pytest.mark.parametrize("state", sorted(states.RUN_FINAL))
def test_a_final_run_is_never_due(state):
    assert due_ms(replace(RUN, state=state)) is None


def test_a_lost_run_is_due_at_once():
    assert due_ms(replace(RUN, state="lost")) == 0


def test_the_earliest_moment_counts_and_only_what_can_still_happen():
    assert due_ms(RUN) == T0 + 50
    assert due_ms(replace(RUN, barriers=1)) == T0 + 90, "it has started"
    assert due_ms(replace(RUN, barriers=1, intent=Intent("deadline", T0))) is None, "it is known"
    assert due_ms(replace(RUN, state="retry_wait", available_ms=T0 + 7, barriers=1)) == T0 + 7
    assert due_ms(replace(RUN, start_by_ms=None, deadline_ms=None)) is None
    held = replace(RUN, state="created", held_by="overlap")
    assert due_ms(held) == T0 + 50, "a held Run times out as well"


def test_a_pause_before_an_offer_is_no_moment_of_the_retry_step():
    assert due_ms(replace(RUN, start_by_ms=None, deadline_ms=None, available_ms=T0 + 7)) is None
