"""Admission: overlap and concurrency decided under the gates, the policy pinned for good (D3)."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from qinglong.domain.admission import admit, gate_keys, pass_gate, promote, replaced
from qinglong.domain.change import Change
from qinglong.domain.completion import Result, complete
from qinglong.domain.definitions import OnLeaseLoss, Overlap
from qinglong.domain.gates import group_key, overlap_key
from qinglong.domain.occurring import place
from qinglong.domain.records import Gate
from qinglong.limits import OVERLAP_QUEUE
from support.builders import (
    accepted,
    admitted,
    claimed,
    draft,
    fence,
    queue,
    refused,
    retry,
    run_id,
    running,
    spec,
    started,
    task,
    told,
    wish,
)
from support.clock import T0

TASK = overlap_key("task-backup")
GROUP = group_key("default", "db")


def others(key, number, start=100):
    """A gate of capacity 1 where other Runs stand: one inside, the others waiting."""
    ids = tuple(run_id(start + each) for each in range(number))
    return Gate(key, 1, ids[:1], ids[1:])


def test_a_run_is_born_queued_with_one_pristine_attempt_and_one_event():
    change = admit(draft(spec()), wish(spec()))
    after = accepted(change)
    assert (after.run.state, after.run.version, after.run.held_by) == ("queued", 1, "")
    assert (after.attempt.number, after.attempt.pristine, after.lease) == (1, True, None)
    assert [event.kind for event in change.events] == ["admitted"]


def test_d3_the_policy_is_resolved_at_admission_and_stored():
    of = spec(
        safety="idempotent",
        retry=retry(5, initial_ms=3_000),
        overlap=queue(2),
        timeout_ms=9_000,
        start_within_ms=1_000,
        deadline_ms=5_000,
        on_lease_loss=OnLeaseLoss("stop_after", 7),
    )
    run = accepted(admit(draft(of), wish(of))).run
    assert run.policy.safety == "idempotent"
    assert run.policy.retry == of.retry
    assert run.policy.overlap == of.overlap
    assert run.policy.timeout_ms == 9_000
    assert run.policy.on_lease_loss == of.on_lease_loss
    assert (run.start_by_ms, run.deadline_ms) == (T0 + 1_000, T0 + 5_000)
    assert run.revision == task(of).revision


@pytest.mark.parametrize("state", ["queued", "starting", "running", "retry_wait", "lost", "unreachable"])
def test_overlap_skip_refuses_while_any_older_run_is_not_final(state):
    """Case 15, 23: whatever the older one is doing, silent or not, it is not final."""
    older = {"queued": admitted, "starting": started}.get(state, running)()
    run = replace(older.run, state=state if state in {"retry_wait", "lost"} else older.run.state)
    if state == "unreachable":
        run = replace(run, unreachable_ms=T0)
    found = draft(spec(), replace(older, run=run))
    assert refused(admit(found, wish(spec(), 2))) == "overlap"


def test_overlap_skip_admits_once_the_older_run_is_final():
    done = replace(admitted(), run=replace(admitted().run, state="failed", finished_ms=T0))
    assert accepted(admit(draft(spec(), done), wish(spec(), 2))).run.state == "queued"


def test_case_15_a_manual_override_is_explicit_and_still_counts():
    found = draft(spec(), running())
    change = admit(found, wish(spec(), 2, allow_overlap=True))
    assert accepted(change).run.state == "queued"
    assert told(change)["admitted"]["override"] is True
    found.apply(change)
    assert len(found.gates[TASK].occupants) == 2
    assert refused(admit(found, wish(spec(), 3))) == "overlap"


def test_an_override_passes_its_own_overlap_but_never_a_concurrency_group():
    of = spec(concurrency="db")
    found = draft(of, running(), gates={GROUP: others(GROUP, 1)})
    after = accepted(admit(found, wish(of, 2, allow_overlap=True)))
    assert (after.run.state, after.run.held_by) == ("created", "concurrency")


def test_case_27_overlap_queue_holds_up_to_its_size_and_then_refuses():
    of = spec(overlap=queue(1))
    found = draft(of, running(admitted_started(of)))
    held = admit(found, wish(of, 2))
    assert (accepted(held).run.state, accepted(held).run.held_by) == ("created", "overlap")
    assert told(held)["admitted"]["waits_for"] == run_id(1)
    found.apply(held)
    assert refused(admit(found, wish(of, 3))) == "queue_full"


def admitted_started(of):
    return started(claimed(admitted(of)))


def test_overlap_allow_stands_at_no_gate_of_its_task():
    of = spec(overlap=Overlap("allow"))
    assert gate_keys(task(of), of) == ()
    assert accepted(admit(draft(of), wish(of))).run.gates == ()


def test_overlap_replace_holds_the_new_run_until_the_end_of_a_started_one_is_a_fact():
    of = spec(overlap=Overlap("replace"))
    old = running(admitted_started(of))
    found = draft(of, old)
    after = accepted(place(found, wish(of, 2)))
    assert (after.run.state, after.run.held_by) == ("created", "overlap")
    older = found.get(old.run.run_id)
    assert older.run.state == "running"
    assert (older.run.intent.kind, older.run.intent.by) == ("cancel", "overlap")


def test_overlap_replace_ends_unstarted_and_waiting_runs_at_once():
    of = spec(overlap=Overlap("replace"))
    found = draft(of, running(admitted_started(of)))
    for number in (2, 3):
        accepted(place(found, wish(of, number)))
    assert found.get(run_id(2)).run.state == "cancelled"
    assert found.get(run_id(3)).run.state == "created"
    assert found.gates[TASK].waiting == (run_id(3),)


def test_overlap_replace_takes_the_place_of_a_run_that_never_started():
    of = spec(overlap=Overlap("replace"))
    found = draft(of, admitted(of))
    assert accepted(place(found, wish(of, 2))).run.state == "queued"
    assert found.get(run_id(1)).run.state == "cancelled"
    assert found.gates[TASK].occupants == (run_id(2),)


def test_a_replacement_that_is_refused_ends_nothing():
    of = spec(overlap=Overlap("replace"), concurrency="db")
    older = admitted(spec(overlap=Overlap("replace")))
    found = draft(of, older, gates={GROUP: others(GROUP, OVERLAP_QUEUE + 1)})
    assert refused(place(found, wish(of, 2))) == "group_full"
    assert found.get(run_id(1)).run.state == "queued"
    assert found.events == []


def test_an_override_replaces_nobody():
    of = spec(overlap=Overlap("replace"))
    found = draft(of, running(admitted_started(of)))
    assert replaced(found, wish(of, 2, allow_overlap=True)) == []


def test_a_full_concurrency_group_holds_and_its_queue_is_bounded():
    of = spec(concurrency="db")
    found = draft(of, gates={GROUP: others(GROUP, 1)})
    after = accepted(admit(found, wish(of)))
    assert (after.run.state, after.run.held_by) == ("created", "concurrency")
    found = draft(of, gates={GROUP: others(GROUP, OVERLAP_QUEUE + 1)})
    assert refused(admit(found, wish(of))) == "group_full"


def test_a_run_held_by_overlap_does_not_take_a_place_in_its_group():
    of = spec(overlap=queue(3), concurrency="db")
    found = draft(of, running(admitted_started(of)))
    found.apply(admit(found, wish(of, 2)))
    assert run_id(2) not in found.gates[GROUP].occupants + found.gates[GROUP].waiting


def test_the_oldest_held_run_is_promoted_first_and_only_as_many_as_there_is_room():
    of = spec(overlap=queue(3))
    old = running(admitted_started(of))
    found = draft(of, old)
    for number in (4, 2, 3):
        found.apply(admit(found, wish(of, number)))
    finish(found, old)
    changes = promote(found)
    assert [change.after.run.run_id for change in changes] == [run_id(2)]
    assert found.get(run_id(2)).run.state == "queued"
    assert found.gates[TASK].waiting == (run_id(3), run_id(4))
    assert promote(found) == []


def finish(found, aggregate):
    """The Run ends, whatever else."""

    now = found.get(aggregate.run.run_id)
    found.apply(complete(now, fence(now), Result(exit_code=0), found.now_ms, 0.0))


def test_a_promoted_run_may_have_to_wait_on_at_its_group():
    of = spec(overlap=queue(1), concurrency="db")
    old = running(admitted_started(of))
    found = draft(of, old)
    found.apply(admit(found, wish(of, 2)))
    other = run_id(99)
    found.gates[GROUP] = Gate(GROUP, 2, (run_id(1), other), ())
    found.gates[GROUP] = replace(found.gates[GROUP], capacity=1)
    finish(found, old)
    (change,) = promote(found)
    assert [event.kind for event in change.events] == ["held"]
    run = change.after.run
    assert (run.state, run.held_by) == ("created", "concurrency")
    assert found.gates[TASK].occupants == (run_id(2),)
    assert found.gates[GROUP] == Gate(GROUP, 1, (other,), (run_id(2),))
    found.gates[GROUP] = replace(found.gates[GROUP], occupants=())
    passed = pass_gate(found, found.get(run_id(2)), GROUP)
    found.apply(passed)
    assert found.get(run_id(2)).run.state == "queued"
    assert found.gates[GROUP] == Gate(GROUP, 1, (run_id(2),), ())


def test_a_run_that_was_not_loaded_is_left_to_the_sweep():
    of = spec(overlap=queue(3))
    old = running(admitted_started(of))
    found = draft(of, old)
    found.gates[TASK] = replace(found.gates[TASK], waiting=(run_id(7),))
    finish(found, old)
    assert promote(found) == []
    assert found.gates[TASK].room == 1


def test_case_48_a_late_run_is_labelled_with_its_lateness():
    change = admit(draft(spec()), wish(spec(), cause="cron", scheduled_ms=T0 - 5_000))
    assert told(change)["admitted"]["late_ms"] == 5_000
    change = admit(draft(spec()), wish(spec(), cause="cron", scheduled_ms=T0 - 999))
    assert "late_ms" not in told(change)["admitted"]


def test_admission_needs_its_gates_to_be_locked():
    with pytest.raises(KeyError):
        admit(draft(), wish(spec()))


def test_capacity_of_a_group_lets_exactly_that_many_in():
    of = spec(overlap=Overlap("allow"), concurrency="db")
    found = draft(of, gates={GROUP: Gate(GROUP, 3)})
    for number in range(1, 6):
        change = admit(found, wish(of, number))
        assert isinstance(change, Change)
        found.apply(change)
    assert len(found.gates[GROUP].occupants) == 3
    assert found.gates[GROUP].waiting == (run_id(4), run_id(5))
