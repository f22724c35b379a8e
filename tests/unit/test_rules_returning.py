"""Returned, unstarted: the same Attempt is pristine again, the Run queued, and no attempt is used."""

from __future__ import annotations

import pytest

from qinglong.domain.dispatch import grant
from qinglong.domain.returning import REASONS, hand_back
from qinglong.domain.states import RELEASE_REASONS
from qinglong.limits import RETURNS_MAX
from support.builders import (
    LEASE_MS,
    accepted,
    admitted,
    claimed,
    fence,
    refused,
    running,
    session,
    started,
    told,
    want,
)
from support.clock import T0


@pytest.mark.parametrize("reason", sorted(REASONS))
def test_the_attempt_is_as_if_it_had_never_been_handed_out(reason):
    found = claimed()
    change = hand_back(found, fence(found), reason, T0, 0.0)
    after = accepted(change)
    assert reason in RELEASE_REASONS
    assert (after.run.state, after.attempt.number, after.attempt.pristine) == ("queued", 1, True)
    assert after.lease is None
    assert (after.attempt.lease_end, after.attempt.lease_generation) == (reason, 1)
    assert after.attempt.lease_version == found.lease.version + 1
    for field in ("worker", "session_id", "offer_id", "token_digest", "claimed_ms"):
        assert getattr(after.attempt, field) is None
    assert after.run.barriers == 0
    assert [event.kind for event in change.events] == ["returned"]


def test_an_orderly_shutdown_does_not_count_and_is_offered_at_once():
    found = claimed()
    run = accepted(hand_back(found, fence(found), "shutdown", T0, 0.0)).run
    assert (run.returns, run.available_ms) == (0, None)


@pytest.mark.parametrize("make", [started, running])
def test_past_the_barrier_nothing_can_be_returned(make):
    found = make()
    assert refused(hand_back(found, fence(found), "declined", T0, 0.0)) == "started"


@pytest.mark.parametrize("reason", ["", "lease_expired", "cancelled", "completed", "nonsense"])
def test_only_a_workers_reasons_are_reasons(reason):
    found = claimed()
    assert refused(hand_back(found, fence(found), reason, T0, 0.0)) == "reason"


def test_pauses_grow_and_at_the_bound_the_run_is_undeliverable_but_never_failed():
    found, now, pauses = admitted(), T0, []
    for number in range(1, RETURNS_MAX + 3):
        now = max(now, found.run.available_ms or 0)
        held = claimed(found, now_ms=now, number=number)
        assert held.lease.generation == number
        change = hand_back(held, fence(held), "declined", now, 0.0)
        found = accepted(change)
        pauses.append(found.run.available_ms - now)
        assert bool(told(change)["returned"].get("undeliverable")) == (number >= RETURNS_MAX)
        assert found.run.state == "queued"
    assert pauses == sorted(pauses)
    assert pauses[0] == 1_000
    assert pauses[-1] <= 300_000
    assert (found.attempt.number, found.run.returns) == (1, RETURNS_MAX + 2)


def test_it_is_not_granted_before_its_pause_has_passed():
    found = claimed()
    back = accepted(hand_back(found, fence(found), "declined", T0, 0.0))
    again = grant(back, session(), want(2), 1, back.run.available_ms - 1, LEASE_MS)
    assert refused(again) == "not_yet"
