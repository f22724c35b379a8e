"""Activation: the start barrier fixes the timeout, counts, and bars what is to end."""

from __future__ import annotations

from msgspec.structs import replace

from qinglong.domain.activation import running as run_now
from qinglong.domain.activation import starting
from qinglong.domain.ending import cancel
from qinglong.domain.records import Intent
from support.builders import (
    LEASE_MS,
    accepted,
    admitted,
    claimed,
    fence,
    refused,
    running,
    spec,
    started,
    told,
)
from support.clock import T0


def test_the_barrier_fixes_the_timeout_by_the_ledgers_clock_and_counts():
    found = claimed(admitted(spec(timeout_ms=5_000)))
    change = starting(found, fence(found), T0 + 10, LEASE_MS)
    after = accepted(change)
    assert after.attempt.timeout_at_ms == T0 + 5_010
    assert (after.attempt.status, after.run.state, after.run.barriers) == ("starting", "dispatching", 1)
    assert told(change)["starting"]["timeout_at_ms"] == T0 + 5_010


def test_after_the_barrier_nothing_older_is_accepted():
    found = claimed()
    after = started(found)
    assert (after.lease.version, after.lease.floor) == (2, 2)
    assert refused(starting(after, fence(found), T0, LEASE_MS)) == "fenced"


def test_the_barrier_is_passed_once():
    found = started()
    assert refused(starting(found, fence(found), T0, LEASE_MS)) == "not_claimed"
    found = running()
    assert refused(starting(found, fence(found), T0, LEASE_MS)) == "not_claimed"


def test_a_run_that_is_to_end_does_not_pass_the_barrier():
    found = claimed()
    wished = replace(found, run=replace(found.run, intent=Intent("deadline", T0)))
    assert refused(starting(wished, fence(found), T0, LEASE_MS)) == "intent"


def test_case_21_a_cancelled_claim_never_starts():
    found = claimed()
    ended = accepted(cancel(found, "ann", "", T0))
    assert refused(starting(ended, fence(found), T0, LEASE_MS)) == "not_leased"


def test_running_needs_the_barrier_and_comes_once():
    found = claimed()
    assert refused(run_now(found, fence(found), T0, LEASE_MS, {})) == "not_starting"
    found = running()
    assert refused(run_now(found, fence(found), T0, LEASE_MS, {})) == "not_starting"


def test_running_keeps_the_floor_so_that_a_completion_may_ride_along():
    before = started()
    after = running(before)
    assert (after.lease.floor, after.lease.version) == (2, 3)
    assert after.run.state == "running"


def test_facts_of_the_worker_cannot_take_the_place_of_our_own():
    found = started()
    facts = {"attempt": 99, "kind": "lost", "run": 1, "now_ms": 0, "pid": 5}
    change = run_now(found, fence(found), T0, LEASE_MS, facts)
    assert told(change)["running"] == {**facts, "attempt": 1}


def test_an_expired_lease_that_nobody_ended_still_starts():
    """Expiry is permission, not an act."""
    found = claimed()
    late = T0 + 10 * LEASE_MS
    after = accepted(starting(found, fence(found), late, LEASE_MS))
    assert after.lease.expires_ms == late + LEASE_MS
