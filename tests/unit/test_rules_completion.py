"""Completion: the worker's word ends the Attempt, and intents, policy and facts decide about the Run."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from qinglong.domain import ending, recovery
from qinglong.domain.completion import Result, complete, outcome
from qinglong.domain.fence import replayed
from qinglong.domain.records import Evidence
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
    spec,
    started,
    told,
)
from support.clock import T0


def ended(found, jitter=0.0, now_ms=T0, **result):
    return complete(found, fence(found), Result(**result), now_ms, jitter)


def under(**fields):
    return running(started(claimed(admitted(spec(**fields)))))


@pytest.mark.parametrize(
    ("result", "wanted"),
    [
        (Result(exit_code=0), ("succeeded", "")),
        (Result(exit_code=3), ("failed", "exit code 3")),
        (Result(signal=9), ("failed", "signal 9")),
        (Result(exit_code=0, signal=9), ("succeeded", "")),
        (Result(), ("failed", "ended without an exit code")),
        (Result(exit_code=0, stopped_by="cancel"), ("cancelled", "cancel")),
        (Result(signal=15, stopped_by="timeout"), ("timed_out", "timeout")),
        (Result(signal=15, stopped_by="deadline"), ("timed_out", "deadline")),
        (Result(signal=15, stopped_by="shutdown"), ("failed", "stopped: shutdown")),
        (Result(signal=15, stopped_by="lease_loss"), ("failed", "stopped: lease_loss")),
        (Result(start_failed="no such file"), ("failed", "start_failed: no such file")),
    ],
)
def test_how_a_command_ended_becomes_a_status_and_a_reason(result, wanted):
    assert outcome(result) == wanted


@pytest.mark.parametrize("make", [started, running])
def test_i5_the_lease_leaves_in_the_change_that_ends_the_attempt(make):
    """Also straight from the barrier: the report of running may have been lost with its worker's process."""
    change = ended(make(), exit_code=0)
    after = accepted(change)
    assert (after.run.state, after.attempt.status, after.lease) == ("succeeded", "succeeded", None)
    assert after.attempt.lease_end == "completed"
    assert after.run.finished_ms == after.attempt.ended_ms == T0
    draft(None, make()).apply(change)


def test_nothing_completes_before_the_barrier():
    assert refused(ended(claimed(), exit_code=0)) == "not_started"


def test_a_late_completion_under_an_expired_lease_is_the_best_evidence_there_is():
    found = running()
    gone = accepted(recovery.judge(found, None, T0 + 2 * LEASE_MS, 0.0))
    assert gone.run.unreachable_ms is not None
    after = accepted(ended(gone, now_ms=T0 + 3 * LEASE_MS, exit_code=0))
    assert (after.run.state, after.run.unreachable_ms) == ("succeeded", None)


def test_a_failure_without_policy_is_final():
    after = accepted(ended(running(), exit_code=1))
    assert (after.run.state, after.run.reason, after.run.exit_code) == ("failed", "exit code 1", 1)


@pytest.mark.parametrize(
    ("result", "cause"),
    [({"exit_code": 1}, "failed"), ({"signal": 15, "stopped_by": "timeout"}, "timed_out")],
)
def test_a_failure_with_a_policy_waits_for_its_retry_and_needs_no_safety(result, cause):
    found = under(retry=retry(2, (cause,), initial_ms=5_000))
    change = ended(found, **result)
    after = accepted(change)
    assert (after.run.state, after.run.available_ms, after.run.finished_ms) == (
        "retry_wait",
        T0 + 5_000,
        None,
    )
    assert after.attempt.status == cause
    assert [event.kind for event in change.events] == ["completed", "retry_scheduled"]
    other = under(retry=retry(2, ("lost",)))
    assert accepted(ended(other, **result)).run.state == cause


def test_attempts_that_are_used_up_are_final():
    found = under(retry=retry(2))
    found = replace(found, run=replace(found.run, barriers=2))
    assert accepted(ended(found, exit_code=1)).run.state == "failed"


def test_success_needs_no_policy():
    assert accepted(ended(under(retry=retry(5)), exit_code=0)).run.state == "succeeded"


@pytest.mark.parametrize("result", [{"exit_code": 1}, {"signal": 15, "stopped_by": "timeout"}])
def test_no_retry_follows_what_a_person_has_ended(result):
    found = accepted(ending.cancel(under(retry=retry(5)), "ann", "", T0))
    assert accepted(ended(found, **result)).run.state == "cancelled"


def test_an_unsuccessful_end_after_the_deadline_has_timed_out():
    found = under(retry=retry(5), deadline_ms=1_000)
    found = accepted(ending.expire(found, T0 + 1_000))
    assert accepted(ended(found, exit_code=1)).run.state == "timed_out"


def test_a_job_that_ended_well_before_its_stop_arrived_has_succeeded():
    found = accepted(ending.cancel(running(), "ann", "", T0))
    assert accepted(ended(found, exit_code=0)).run.state == "succeeded"


def test_stopped_by_the_deadline_is_never_retried():
    after = accepted(ended(under(retry=retry(5)), signal=15, stopped_by="deadline"))
    assert after.run.state == "timed_out"


def test_a_command_that_could_not_be_started_says_why_and_says_it_in_the_lease():
    change = ended(started(), start_failed="cwd does not exist")
    after = accepted(change)
    assert (after.run.state, after.attempt.lease_end) == ("failed", "start_failed")
    assert told(change)["completed"]["reason"] == "start_failed: cwd does not exist"


def test_facts_about_the_log_stand_on_the_attempt():
    after = accepted(ended(running(), exit_code=0, log_bytes=7, log_dropped=2, log_digest="d"))
    assert (after.attempt.log_bytes, after.attempt.log_dropped, after.attempt.log_digest) == (7, 2, "d")


def test_case_22_19_whichever_of_verdict_and_completion_comes_first_wins():
    found = running(started(claimed(admitted(spec(safety="idempotent", retry=retry(2))))))
    gone = Evidence("", "", 1, "not_running", "attestation", T0, "", "tree_gone", 1, found.lease.version)
    lost = accepted(recovery.judge(found, gone, T0, 0.0))
    late = complete(lost, fence(found), Result(exit_code=0), T0, 0.0)
    assert refused(late) == "not_leased"
    assert late.late, "it is kept as evidence"
    done = accepted(ended(found, exit_code=0))
    assert refused(recovery.judge(done, gone, T0, 0.0)) == "live"


def test_a_repeated_completion_is_recognised_and_changes_nothing():
    found = running()
    after = accepted(ended(found, exit_code=0))
    assert refused(complete(after, fence(found), Result(exit_code=0), T0, 0.0)) == "not_leased"
    assert replayed("completed", after, fence(found), "s")
    assert not replayed("completed", after, fence(found, token_digest="x"), "s")
