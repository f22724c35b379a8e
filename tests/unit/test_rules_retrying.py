"""Retry (D3): only what was declared safe at admission runs again, in the order of the decision."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from qinglong.domain.definitions import Backoff, Retry
from qinglong.domain.records import Intent
from qinglong.domain.retrying import REDELIVERY, delay_ms, next_attempt, settle_lost, verdict
from qinglong.limits import BACKOFF_FLOOR_MS, BACKOFF_MAX_MS
from support.builders import accepted, admitted, claimed, draft, refused, retry, running, spec, started, told
from support.clock import T0


def lost(reason="not_running", barriers=1, intent=None, **fields):
    """A Run whose Attempt is lost."""
    found = running(started(claimed(admitted(spec(**fields)))))
    attempt = replace(found.attempt, status="lost", ended_ms=T0, reason=reason, lease_end="lease_expired")
    run = replace(found.run, state="lost", barriers=barriers, intent=intent, reason="lost")
    return replace(found, run=run, attempt=attempt, lease=None)


SAFE = {"safety": "idempotent", "retry": retry(3, initial_ms=4_000)}


@pytest.mark.parametrize("safety", ["idempotent", "deduplicated"])
def test_d3_a_lost_run_that_was_declared_safe_waits_for_its_retry(safety):
    change = settle_lost(lost(safety=safety, retry=retry(3, initial_ms=4_000)), T0, 0.0)
    after = accepted(change)
    assert (after.run.state, after.run.available_ms, after.run.finished_ms) == (
        "retry_wait",
        T0 + 4_000,
        None,
    )
    assert told(change)["retry_scheduled"]["next_attempt_ms"] == T0 + 4_000


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({}, "lost_retry_disabled"),
        ({"safety": "idempotent"}, "lost_retry_disabled"),
        ({"safety": "idempotent", "retry": Retry(5, ("failed",))}, "lost_retry_disabled"),
        ({"safety": "idempotent", "retry": Retry(1, ("lost",))}, "lost_retry_disabled"),
        ({"safety": "idempotent", "retry": Retry(0, ("lost",))}, "lost_retry_disabled"),
        ({"retry": Retry(5, ("lost",))}, "lost_retry_unsafe"),
        ({"barriers": 3, **SAFE}, "lost_retry_exhausted"),
        ({"barriers": 4, **SAFE}, "lost_retry_exhausted"),
        # the order: disabled before unsafe before exhausted
        ({"retry": Retry(5, ("failed",))}, "lost_retry_disabled"),
        ({"barriers": 9, "retry": Retry(5, ("lost",))}, "lost_retry_unsafe"),
        ({"barriers": 9}, "lost_retry_disabled"),
    ],
)
def test_d3_the_reasons_come_in_the_order_of_the_decision(fields, reason):
    after = accepted(settle_lost(lost(**fields), T0, 0.0))
    assert (after.run.state, after.run.reason, after.run.finished_ms) == ("failed", reason, T0)


@pytest.mark.parametrize(
    ("kind", "state", "told_reason"),
    [("cancel", "cancelled", "cancel"), ("deadline", "timed_out", "deadline")],
)
@pytest.mark.parametrize("fields", [{}, SAFE, {"retry": Retry(5, ("lost",))}, {"reason": "never_started"}])
def test_d3_an_intent_comes_first(kind, state, told_reason, fields):
    after = accepted(settle_lost(lost(intent=Intent(kind, T0), **fields), T0, 0.0))
    assert (after.run.state, after.run.reason) == (state, told_reason)


def test_what_never_started_is_delivered_again_without_any_policy():
    after = accepted(settle_lost(lost("never_started", barriers=0), T0, 0.0))
    assert (after.run.state, after.run.returns, after.run.available_ms) == ("retry_wait", 1, T0 + 1_000)


def test_only_a_lost_run_is_settled_as_lost():
    assert refused(settle_lost(running(), T0, 0.0)) == "not_lost"


@pytest.mark.parametrize("cause", ["failed", "timed_out"])
def test_ordinary_failures_need_no_safety_because_their_end_is_a_fact(cause):
    run = admitted(spec(retry=retry(3))).run
    assert verdict(replace(run, barriers=2), cause) == ""
    assert verdict(replace(run, barriers=3), cause) == "retry_exhausted"
    assert verdict(admitted().run, cause) == "retry_disabled"


def test_i3_the_next_attempt_inherits_nothing_from_the_last():
    waiting = accepted(settle_lost(lost(**SAFE), T0, 0.0))
    assert refused(next_attempt(waiting, waiting.run.available_ms - 1)) == "not_yet"
    change = next_attempt(waiting, waiting.run.available_ms)
    after = accepted(change)
    assert (after.run.state, after.run.attempt, after.run.available_ms) == ("queued", 2, None)
    assert (after.attempt.number, after.attempt.pristine, after.lease) == (2, True, None)
    assert (after.attempt.lease_generation, after.attempt.lease_version, after.attempt.fence) == (0, 0, 0)
    assert after.attempt.timeout_at_ms is None
    assert list(told(change)) == ["retried"]
    work = draft(None, waiting)
    work.apply(change)
    assert sorted(ref.number for ref in work.attempts) == [2]


def test_no_attempt_follows_one_that_has_not_ended():
    waiting = accepted(settle_lost(lost(**SAFE), T0, 0.0))
    alive = replace(waiting, attempt=replace(waiting.attempt, ended_ms=None))
    assert refused(next_attempt(alive, T0 + 10**6)) == "still_live"
    leased = replace(waiting, lease=running().lease)
    assert refused(next_attempt(leased, T0 + 10**6)) == "still_live"


def test_no_attempt_follows_an_intent_or_another_state():
    waiting = accepted(settle_lost(lost(**SAFE), T0, 0.0))
    wished = replace(waiting, run=replace(waiting.run, intent=Intent("cancel", T0)))
    assert refused(next_attempt(wished, T0 + 10**6)) == "intent"
    assert refused(next_attempt(running(), T0 + 10**6)) == "not_waiting"


def test_case_28_a_backoff_of_zero_is_floored():
    for initial in (0, 1, 999):
        assert delay_ms(Backoff(initial, 1.0, 0), 1, 0.999) == BACKOFF_FLOOR_MS


def test_case_28_gaps_grow_and_are_capped():
    backoff = Backoff(2_000, 2.0, 60_000)
    gaps = [delay_ms(backoff, failures, 0.0) for failures in range(1, 9)]
    assert gaps == [2_000, 4_000, 8_000, 16_000, 32_000, 60_000, 60_000, 60_000]


def test_case_28_gaps_are_jittered_downwards_by_at_most_a_fifth():
    backoff = Backoff(10_000, 2.0, 600_000)
    gaps = {delay_ms(backoff, 1, jitter / 100) for jitter in range(100)}
    assert len(gaps) == 100
    assert 8_000 < min(gaps) < max(gaps) == 10_000


@given(
    st.integers(0, 10**15),
    st.floats(1.0, 100.0),
    st.integers(0, 10**15),
    st.integers(-5, 10**6),
    st.floats(0.0, 1.0, exclude_max=True),
)
def test_case_28_every_delay_is_bounded_both_ways(initial, factor, most, failures, jitter):
    assert BACKOFF_FLOOR_MS <= delay_ms(Backoff(initial, factor, most), failures, jitter) <= BACKOFF_MAX_MS


def test_redeliveries_back_off_like_failures():
    assert [delay_ms(REDELIVERY, times, 0.0) for times in (1, 2, 9, 50)] == [1_000, 2_000, 256_000, 300_000]
