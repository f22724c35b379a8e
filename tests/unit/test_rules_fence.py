"""The fence (I4): worker, run, step, attempt, offer, generation, version and token, all of them, every time."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from qinglong.domain import activation, completion, recovery, renewal, retrying, returning
from qinglong.domain.completion import Result
from qinglong.domain.fence import check, replayed, same_delivery
from qinglong.domain.records import Evidence, Lease
from support.builders import (
    LEASE_MS,
    accepted,
    admitted,
    claimed,
    draft,
    fence,
    refused,
    retry,
    running,
    session,
    spec,
    started,
)
from support.clock import T0


@pytest.mark.parametrize(
    ("field", "value", "code"),
    [
        ("worker", "w2", "fenced"),
        ("offer_id", "offer-2", "fenced"),
        ("generation", 2, "fenced"),
        ("generation", 0, "fenced"),
        ("version", 0, "fenced"),
        ("version", 99, "fenced"),
        ("token_digest", "0" * 64, "token"),
        ("token_digest", "", "token"),
        ("attempt", 2, "attempt_unknown"),
        ("attempt", 0, "attempt_unknown"),
        ("attempt", -1, "attempt_unknown"),
        ("step", "other", "attempt_unknown"),
    ],
)
def test_i4_each_part_of_the_fence_counts(field, value, code):
    found = running()
    assert isinstance(check(found, fence(found)), Lease)
    answer = check(found, fence(found, **{field: value}))
    assert refused(answer) == code
    assert answer.late == (code != "attempt_unknown"), "what never was leaves no evidence: rows stay bounded"


def test_a_report_about_no_run_leaves_no_evidence():
    answer = check(None, fence(running()))
    assert (answer.code, answer.late) == ("run_unknown", False)


def test_a_report_about_an_older_attempt_is_kept():
    found = lost_and_retried()
    answer = check(found, fence(running()))
    assert (answer.code, answer.late) == ("superseded", True)


def lost_and_retried():
    found = running(started(claimed(admitted(spec(safety="idempotent", retry=retry(3))))))
    proof = Evidence("", "", 1, "not_running", "x", T0, "", "tree_gone", 1, found.lease.version)
    lost = accepted(recovery.judge(found, proof, T0, 0.0))
    waiting = accepted(retrying.settle_lost(lost, T0, 0.0))
    return accepted(retrying.next_attempt(waiting, waiting.run.available_ms))


def test_a_renewal_keeps_the_floor_any_other_report_raises_it():
    found = claimed()
    before = fence(found)
    renewed = accepted(renewal.renew(found, before, T0, LEASE_MS))
    assert isinstance(check(renewed, before), Lease)
    begun = accepted(activation.starting(renewed, before, T0, LEASE_MS))
    assert refused(check(begun, before)) == "fenced"


def test_after_its_holder_disowned_it_only_the_completion_is_accepted():
    found = running()
    proof = Evidence("", "", 1, "not_running", "attestation", T0, "", "tree_gone", 1, found.lease.version)
    disowned = accepted(recovery.record(found, proof, T0))
    mine = fence(disowned)
    assert refused(renewal.renew(disowned, mine, T0, LEASE_MS)) == "disowned"
    assert refused(renewal.adopt(disowned, mine, session(), T0, LEASE_MS)) == "disowned"
    assert refused(returning.hand_back(disowned, mine, "declined", T0, 0.0)) == "disowned"
    assert refused(activation.running(disowned, mine, T0, LEASE_MS, {})) == "disowned"
    after = accepted(completion.complete(disowned, mine, Result(exit_code=0), T0, 0.0))
    assert after.run.state == "succeeded"


REPORTS = {
    "starting": lambda found, mine: activation.starting(found, mine, T0, LEASE_MS),
    "running": lambda found, mine: activation.running(found, mine, T0, LEASE_MS, {}),
    "completed": lambda found, mine: completion.complete(found, mine, Result(exit_code=0), T0, 0.0),
    "returned": lambda found, mine: returning.hand_back(found, mine, "declined", T0, 0.0),
    "renew": lambda found, mine: renewal.renew(found, mine, T0, LEASE_MS),
    "adopt": lambda found, mine: renewal.adopt(found, mine, session(), T0, LEASE_MS),
}


@pytest.mark.parametrize("kind", REPORTS)
@pytest.mark.parametrize("make", [claimed, started, running])
def test_i4_once_authority_has_moved_no_report_of_the_old_holder_is_accepted(kind, make):
    """Case 17: lost, returned, completed, or granted to somebody else meanwhile."""
    found = make()
    old = fence(found)
    moved = [lost_and_retried()]
    if found.attempt.status == "claimed":
        back = accepted(returning.hand_back(found, old, "shutdown", T0, 0.0))
        moved += [back, claimed(back, number=2, worker="w2")]
    else:
        moved.append(accepted(completion.complete(found, old, Result(exit_code=0), T0, 0.0)))
    for now in moved:
        answer = REPORTS[kind](now, old)
        assert refused(answer) in {"not_leased", "fenced", "superseded"}
        assert answer.late


@pytest.mark.parametrize("kind", REPORTS)
def test_replaying_a_report_is_recognised_right_after_it_was_accepted(kind):
    makers = {"starting": claimed, "running": started, "returned": claimed}
    found = makers.get(kind, running)()
    mine = fence(found)
    change = REPORTS[kind](found, mine)
    after = accepted(change)
    again = REPORTS[kind](after, mine)
    if kind == "renew":
        assert accepted(again).lease.version == after.lease.version + 1
        return
    refused(again)
    assert replayed(kind, after, mine, session().session_id)
    work = draft(None, found)
    work.apply(change)
    assert work.get(found.run.run_id) == after


def test_a_replay_of_another_delivery_is_no_replay():
    found = claimed()
    old = fence(found)
    back = accepted(returning.hand_back(found, old, "declined", T0, 0.0))
    assert replayed("returned", back, old, "s")
    again = claimed(back, now_ms=T0 + 10_000, number=2)
    assert not replayed("starting", started(again), old, "s")
    assert not same_delivery(again, old)
    third = lost_and_retried()
    third = replace(third, attempt=replace(third.attempt, lease_generation=1, lease_end="declined"))
    assert not replayed("returned", third, old, "s"), "that was another attempt"
    assert not replayed("returned", None, old, "s")


def test_a_replay_under_a_wrong_token_is_no_replay():
    found = started()
    assert replayed("starting", found, fence(found, version=1), "s")
    assert not replayed("starting", found, fence(found, version=1, token_digest="x"), "s")
