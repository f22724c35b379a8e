"""Gates: who stands where is a function of the Run alone."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from qinglong.domain import states
from qinglong.domain.admission import admit
from qinglong.domain.change import Aggregate, Change, event
from qinglong.domain.gates import (
    OCCUPIES,
    WAITS,
    first_closed,
    group_key,
    is_overlap,
    overlap_key,
    places,
    same_places,
    shift,
)
from qinglong.domain.records import Gate
from qinglong.errors import Damaged
from support.builders import admitted, draft, run_id, running, spec, wish
from support.clock import T0

TASK, GROUP = overlap_key("t"), group_key("default", "db")
RUN = replace(admitted().run, gates=(TASK, GROUP))


@pytest.mark.parametrize("state", sorted(states.RUN))
def test_every_run_that_is_not_final_occupies_all_its_gates(state):
    """Also one in retry_wait, lost or unreachable: silence frees nothing."""
    finished = T0 if state in states.RUN_FINAL else None
    run = replace(RUN, state=state, finished_ms=finished, unreachable_ms=T0)
    wanted = () if finished else ((TASK, OCCUPIES), (GROUP, OCCUPIES))
    assert places(run) == wanted


def test_a_held_run_waits_at_one_gate_and_occupies_those_before_it():
    held = replace(RUN, state="created")
    assert places(replace(held, held_by="overlap")) == ((TASK, WAITS),)
    assert places(replace(held, held_by="concurrency")) == ((TASK, OCCUPIES), (GROUP, WAITS))
    assert places(replace(held, held_by="concurrency", gates=(GROUP,))) == ((GROUP, WAITS),)


def test_same_places_agrees_with_places():
    runs = [
        replace(RUN, state=state, held_by=held, finished_ms=finished)
        for state, held, finished in (
            ("created", "overlap", None),
            ("created", "concurrency", None),
            ("queued", "", None),
            ("lost", "", None),
            ("failed", "", 5),
            ("succeeded", "", 6),
        )
    ]
    for before in runs:
        for after in runs:
            assert same_places(before, after) == (places(before) == places(after))


def test_a_task_name_cannot_be_taken_for_a_group():
    assert is_overlap(overlap_key("x"))
    assert not is_overlap(group_key("task:x", "y"))


def test_shift_moves_one_run_and_keeps_waiters_in_order_of_age():
    gate = Gate(TASK, 1, ("a",), ("c",))
    gate = shift(gate, "b", None, WAITS)
    assert gate.waiting == ("b", "c")
    gate = shift(gate, "a", OCCUPIES, None)
    assert gate.room == 1
    gate = shift(gate, "b", WAITS, OCCUPIES)
    assert (gate.occupants, gate.waiting, gate.room) == (("b",), ("c",), 0)
    assert shift(gate, "x", None, None) is gate


def test_the_first_closed_gate_is_the_one_it_meets_first():
    full, free = Gate(TASK, 1, ("a",)), Gate(GROUP, 1)
    assert first_closed((TASK, GROUP), {TASK: full, GROUP: free}) is full
    assert first_closed((GROUP,), {GROUP: free}) is None
    over = Gate(GROUP, 1, ("a", "b"))
    assert over.room == -1
    assert first_closed((GROUP,), {GROUP: over}) is over


def test_no_change_moves_a_gate_that_is_not_locked():
    of = spec()
    born = admit(draft(of), wish(of))
    with pytest.raises(Damaged, match="unlocked"):
        draft().apply(born)


def test_i1_a_draft_refuses_a_gap_between_version_and_events():
    found = draft(spec(), admitted())
    run = found.get(run_id()).run
    torn = Change(Aggregate(replace(run, version=3), found.get(run_id()).attempt, None))
    with pytest.raises(Damaged, match="disagree"):
        found.apply(torn)


def test_i2_a_draft_refuses_a_second_live_attempt():
    found = draft(spec(), running())
    now = found.get(run_id())
    run, told = event(now.run, T0, "retried")
    second = Aggregate(run, replace(now.attempt, number=2), now.lease)
    with pytest.raises(Damaged, match="two live attempts"):
        found.apply(Change(second, (told,)))


def test_i5_a_draft_refuses_a_final_attempt_that_is_leased():
    found = draft(spec(), running())
    now = found.get(run_id())
    run, told = event(replace(now.run, state="lost"), T0, "lost")
    torn = Aggregate(run, replace(now.attempt, status="lost", ended_ms=T0), now.lease)
    with pytest.raises(Damaged, match="cannot be leased"):
        found.apply(Change(torn, (told,)))


def test_i8_a_draft_refuses_to_leave_a_final_state():
    done = replace(admitted(), run=replace(admitted().run, state="cancelled", finished_ms=T0))
    found = draft(spec(), done)
    run, told = event(replace(done.run, state="queued", finished_ms=None), T0, "retried")
    with pytest.raises(Damaged, match="cannot go from cancelled to queued"):
        found.apply(Change(Aggregate(run, done.attempt, None), (told,)))
