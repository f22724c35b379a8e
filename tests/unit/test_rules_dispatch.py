"""Dispatch: only a queued Run's pristine Attempt is granted, as a Lease of the next generation."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from qinglong.domain import ending, retrying
from qinglong.domain.dispatch import grant
from qinglong.domain.records import Intent
from qinglong.domain.returning import hand_back
from support.builders import (
    DIGEST,
    LEASE_MS,
    accepted,
    admitted,
    claimed,
    fence,
    refused,
    running,
    session,
    spec,
    started,
    want,
)
from support.clock import T0


def offer(found, now_ms=T0, **fields):
    return grant(found, session(**fields), want(), 7, now_ms, LEASE_MS)


def test_a_grant_makes_a_lease_for_exactly_this_session_and_journal():
    change = offer(admitted(), generation=3, journal_revision=9)
    after = accepted(change)
    lease = after.lease
    assert (after.run.state, after.attempt.status) == ("dispatching", "claimed")
    assert (lease.generation, lease.version, lease.floor) == (1, 1, 1)
    assert (lease.session_generation, lease.journal_revision) == (3, 9)
    assert (lease.worker, lease.offer_id, lease.token_digest) == ("w1", "offer-1", DIGEST)
    assert (lease.expires_ms, lease.judge_ms) == (T0 + LEASE_MS, T0 + LEASE_MS)
    assert after.attempt.fence == 7
    assert not after.attempt.pristine
    assert [event.kind for event in change.events] == ["offered"]


@pytest.mark.parametrize("make", [claimed, started, running])
def test_what_was_handed_out_is_not_handed_out_again(make):
    assert refused(offer(make())) == "not_queued"


def test_a_queued_run_whose_attempt_is_not_pristine_is_not_offered():
    found = claimed()
    torn = replace(found, run=replace(found.run, state="queued"))
    assert refused(offer(torn)) == "not_pristine"


def test_a_run_that_waits_for_its_moment_is_not_offered_before_it():
    found = replace(admitted(), run=replace(admitted().run, available_ms=T0 + 10))
    assert refused(offer(found, T0 + 9)) == "not_yet"
    assert accepted(offer(found, T0 + 10)).lease


@pytest.mark.parametrize("field", ["start_within_ms", "deadline_ms"])
def test_a_run_whose_time_has_passed_is_not_offered(field):
    found = admitted(spec(**{field: 1_000}))
    assert accepted(offer(found, T0 + 999)).lease
    assert refused(offer(found, T0 + 1_000)) == "late"


def test_a_run_that_is_to_end_is_not_offered():
    found = replace(admitted(), run=replace(admitted().run, intent=Intent("cancel", T0)))
    assert refused(offer(found)) == "intent"


def test_the_next_grant_of_the_same_attempt_is_the_next_generation():
    found = claimed()
    back = accepted(hand_back(found, fence(found), "declined", T0, 0.0))
    again = accepted(offer(back, T0 + 10_000))
    assert (again.attempt.number, again.lease.generation, again.lease.version) == (1, 2, 1)


def test_a_cancelled_run_is_never_granted_again():
    """Case 21: cancel, then whatever happens to the server."""
    found = accepted(ending.cancel(admitted(), "ann", "", T0))
    assert refused(offer(found)) == "not_queued"
    assert refused(retrying.next_attempt(found, T0 + 10**9)) == "not_waiting"


def test_start_within_does_not_hold_back_the_retry_of_what_has_started():
    found = admitted(spec(start_within_ms=1_000))
    again = replace(found, run=replace(found.run, barriers=1, attempt=2))
    assert accepted(offer(again, T0 + 60_000)).lease
