"""Cancellation and deadlines: unstarted work ends at once, started work only gets an intent."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from qinglong.domain import recovery
from qinglong.domain.admission import admit
from qinglong.domain.completion import Result, complete
from qinglong.domain.ending import cancel, expire
from qinglong.domain.records import Evidence, Intent
from qinglong.domain.settling import settle
from support.builders import (
    LEASE_MS,
    accepted,
    admitted,
    claimed,
    draft,
    fence,
    queue,
    refused,
    retry,
    running,
    spec,
    started,
    told,
    wish,
)
from support.clock import T0


def held():
    of = spec(overlap=queue(1))
    found = draft(of, running(started(claimed(admitted(of)))))
    return accepted(admit(found, wish(of, 2)))


def waiting():
    found = running(started(claimed(admitted(spec(retry=retry(3))))))
    return accepted(complete(found, fence(found), Result(exit_code=1), T0, 0.0))


def lost():
    found = running()
    proof = Evidence("", "", 1, "not_running", "x", T0, "", "tree_gone", 1, found.lease.version)
    return accepted(recovery.judge(found, proof, T0, 0.0))


@pytest.mark.parametrize("make", [admitted, held, claimed, waiting, lost])
def test_unstarted_work_is_cancelled_at_once(make):
    found = make()
    change = cancel(found, "ann", "wrong day", T0 + 5)
    after = accepted(change)
    assert (after.run.state, after.run.held_by, after.lease) == ("cancelled", "", None)
    assert (after.run.finished_ms, after.run.reason) == (T0 + 5, "wrong day")
    assert after.attempt.ended_ms is not None
    if found.attempt.ended_ms is None:
        assert after.attempt.status == "cancelled"
    else:
        assert after.attempt == found.attempt, "what ended before stays as it ended"
    assert told(change)["cancelled"]["by"] == "ann"


def test_a_claim_that_is_cancelled_releases_its_lease():
    after = accepted(cancel(claimed(), "ann", "", T0))
    assert (after.attempt.lease_end, after.lease) == ("cancelled", None)


@pytest.mark.parametrize("make", [started, running])
def test_past_the_barrier_a_cancellation_is_only_recorded(make):
    found = make()
    change = cancel(found, "ann", "", T0)
    after = accepted(change)
    assert after.run.intent == Intent("cancel", T0, "ann", "")
    assert (after.run.state, after.attempt, after.lease) == (found.run.state, found.attempt, found.lease)
    assert list(told(change)) == ["cancel_requested"]
    assert refused(cancel(after, "bob", "", T0)) == "already"


def test_a_cancellation_replaces_a_deadline_intent():
    found = accepted(expire(under_way(deadline_ms=1_000), T0 + 1_000))
    assert found.run.intent.kind == "deadline"
    assert accepted(cancel(found, "ann", "", T0 + 2_000)).run.intent.kind == "cancel"


def under_way(**fields):
    return running(started(claimed(admitted(spec(**fields)))))


@pytest.mark.parametrize("state", ["succeeded", "failed", "cancelled", "timed_out"])
def test_i8_a_final_run_is_neither_cancelled_nor_expired(state):
    found = replace(admitted(), run=replace(admitted().run, state=state, finished_ms=T0, deadline_ms=T0))
    assert refused(cancel(found, "ann", "", T0)) == "final"
    assert refused(expire(found, T0 + 10)) == "final"


@pytest.mark.parametrize("field", ["start_within_ms", "deadline_ms"])
def test_unstarted_work_is_timed_out_when_its_time_has_passed(field):
    for found in (admitted(spec(**{field: 1_000})), claimed(admitted(spec(**{field: 1_000})))):
        assert refused(expire(found, T0 + 999)) == "not_due"
        after = accepted(expire(found, T0 + 1_000))
        reason = "start_within" if field == "start_within_ms" else "deadline"
        assert (after.run.state, after.run.reason, after.lease) == ("timed_out", reason, None)
        assert after.attempt.status == "timed_out"


def test_start_within_says_nothing_about_what_has_started():
    found = under_way(start_within_ms=1_000)
    assert refused(expire(found, T0 + 5_000)) == "not_due"


def test_start_within_says_nothing_about_a_retry():
    """It bounds the first start; a Run that has started once waits for its next attempt as long as it takes."""
    found = under_way(start_within_ms=1_000, retry=retry(3))
    found = accepted(complete(found, fence(found), Result(exit_code=1), T0, 0.0))
    assert refused(expire(found, T0 + 5_000)) == "not_due"


def test_past_the_barrier_a_deadline_is_only_recorded_and_once():
    found = under_way(deadline_ms=1_000)
    change = expire(found, T0 + 1_000)
    after = accepted(change)
    assert after.run.intent.kind == "deadline"
    assert after.lease == found.lease
    assert list(told(change)) == ["deadline_requested"]
    assert refused(expire(after, T0 + 2_000)) == "not_due"


def test_a_deadline_does_not_replace_a_cancellation():
    found = accepted(cancel(under_way(deadline_ms=1_000), "ann", "", T0))
    assert refused(expire(found, T0 + 1_000)) == "not_due"


def test_a_waiting_retry_ends_at_the_deadline_of_the_whole_run():
    found = under_way(deadline_ms=1_000, retry=retry(3))
    found = accepted(complete(found, fence(found), Result(exit_code=1), T0, 0.0))
    after = accepted(settle(draft(None, found, now_ms=T0 + 1_000), found, 0.0))
    assert after.run.state == "timed_out"


def test_an_intent_and_a_loss_end_as_the_intent_says():
    for make, state in ((cancel_it, "cancelled"), (expire_it, "timed_out")):
        found = make(under_way(deadline_ms=1_000, safety="idempotent", retry=retry(5)))
        proof = Evidence("", "", 1, "not_running", "x", T0, "", "tree_gone", 1, found.lease.version)
        gone = accepted(recovery.judge(found, proof, T0 + 10 * LEASE_MS, 0.0))
        assert gone.run.state == "lost"
        after = accepted(settle(draft(None, gone, now_ms=T0 + 10 * LEASE_MS), gone, 0.0))
        assert after.run.state == state


def cancel_it(found):
    return accepted(cancel(found, "ann", "", T0))


def expire_it(found):
    return accepted(expire(found, T0 + 1_000))
