"""Recovery (D1, D2): the verdict table of the design, row by row. Silence is never evidence."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from qinglong.domain import ending, renewal, returning
from qinglong.domain.records import Evidence
from qinglong.domain.recovery import TRUSTED_PROOFS, believable, judge, record
from qinglong.domain.settling import settle
from qinglong.limits import MINUTE
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
    told,
)
from support.clock import T0

EXPIRED = T0 + LEASE_MS
LATE = T0 + 10 * LEASE_MS


def says(found, answer, proof="", **fields):
    """An answer about the delivery that the Lease stands for now."""
    lease = found.lease
    made = Evidence(
        lease.run_id, "", lease.attempt, answer, "attestation", T0, "", proof, lease.generation, lease.version
    )
    return replace(made, **fields)


# Row: claimed, lease expired → never started


def test_a_claim_that_expired_provably_never_ran_and_is_delivered_again():
    change = judge(claimed(), None, EXPIRED, 0.0)
    after = accepted(change)
    assert (after.run.state, after.attempt.number, after.attempt.pristine) == ("queued", 1, True)
    assert (after.lease, after.attempt.lease_end, after.run.barriers) == (None, "lease_expired", 0)
    assert (after.run.returns, after.run.available_ms) == (1, EXPIRED + 1_000)
    assert told(change)["returned"]["reason"] == "lease_expired"


def test_a_claim_with_a_live_lease_is_left_alone():
    assert refused(judge(claimed(), None, EXPIRED - 1, 0.0)) == "live"


@pytest.mark.parametrize("answer", ["running", "unknown"])
def test_an_answer_that_proves_nothing_does_not_take_a_live_claim_away(answer):
    found = claimed()
    found = accepted(record(found, says(found, answer), T0 + 5))
    after = accepted(judge(found, says(found, answer), T0 + 5, 0.0))
    assert after.attempt == found.attempt
    assert (after.run, after.lease.judge_ms) == (found.run, found.lease.expires_ms)


# Row: starting, never_began from the same journal → never started


@pytest.mark.parametrize("make", [claimed, started])
def test_never_began_delivers_again_whatever_the_policy_says(make):
    found = make()
    found = accepted(record(found, says(found, "never_began", "not_begun"), T0 + 5))
    change = judge(found, says(found, "never_began", "not_begun"), T0 + 5, 0.0)
    after = accepted(change)
    assert after.run.barriers == 0, "the barrier that it passed without beginning is not counted"
    if found.attempt.status == "claimed":
        assert (after.run.state, after.attempt.pristine) == ("queued", True)
        return
    assert (after.run.state, after.attempt.status) == ("lost", "lost")
    assert after.attempt.reason == "never_started"
    waiting = accepted(settle(draft(None, after), after, 0.0))
    assert (waiting.run.state, waiting.run.returns) == ("retry_wait", 1)


def test_never_began_after_running_was_reported_is_a_contradiction_and_decides_nothing():
    """I3: that it ran is a recorded fact."""
    found = running()
    found = accepted(record(found, says(found, "never_began", "not_begun"), T0 + 5))
    after = accepted(judge(found, says(found, "never_began", "not_begun"), T0 + 5, 0.0))
    assert (after.run.state, after.attempt.status) == ("running", "running")
    assert after.run.unreachable_ms is not None
    assert after.lease is not None


# Row: starting|running, not_running from a trusted provider → lost


@pytest.mark.parametrize("make", [started, running])
@pytest.mark.parametrize("proof", sorted(TRUSTED_PROOFS))
def test_d2_not_running_with_a_trusted_proof_is_lost_in_one_change(make, proof):
    found = make()
    change = judge(found, says(found, "not_running", proof, provider="reboot"), EXPIRED, 0.0)
    after = accepted(change)
    assert (after.run.state, after.attempt.status, after.lease) == ("lost", "lost", None)
    assert (after.attempt.lease_end, after.attempt.lease_version) == (
        "lease_expired",
        found.lease.version + 1,
    )
    assert (after.attempt.reason, after.run.barriers, after.run.finished_ms) == ("not_running", 1, None)
    data = told(change)["lost"]
    assert (data["provider"], data["proof"], data["evidence_ms"]) == ("reboot", proof, T0)


@pytest.mark.parametrize("proof", ["", "receipt", "promise"])
def test_not_running_without_a_trusted_proof_decides_nothing(proof):
    found = running()
    after = accepted(judge(found, says(found, "not_running", proof), EXPIRED, 0.0))
    assert (after.run.state, after.attempt.status) == ("running", "running")


def test_a_verdict_needs_no_expiry_once_the_holder_said_that_nothing_runs():
    found = running()
    found = accepted(record(found, says(found, "not_running", "tree_gone"), T0 + 5))
    assert found.lease.expires_ms <= T0 + 5, "the life of its lease ended at once"
    after = accepted(judge(found, says(found, "not_running", "tree_gone"), T0 + 5, 0.0))
    assert after.run.state == "lost"


# Row: running, unknown, provider unavailable, silence → keep, backoff, unreachable


@pytest.mark.parametrize("make", [started, running])
@pytest.mark.parametrize("answer", [None, "running", "unknown"])
def test_silence_keeps_everything_and_says_since_when(make, answer):
    found = make()
    evidence = None if answer is None else says(found, answer)
    change = judge(found, evidence, EXPIRED, 0.0)
    after = accepted(change)
    assert (after.run.state, after.attempt) == (found.run.state, found.attempt)
    assert after.run.unreachable_ms == EXPIRED
    assert after.lease.judge_ms == EXPIRED + 1_000
    assert replace(after.lease, judge_ms=0) == replace(found.lease, judge_ms=0), "still leased"
    assert told(change)["unreachable"].get("answer") == answer


def test_it_is_told_once_and_looked_at_ever_less_often_up_to_a_bound():
    found, now, pauses = running(), EXPIRED, []
    for _ in range(16):
        change = judge(found, None, now, 0.0)
        assert len(change.events) == (0 if pauses else 1)
        found = accepted(change)
        pauses.append(found.lease.judge_ms - now)
        now = found.lease.judge_ms
    assert pauses == sorted(pauses)
    assert pauses[-1] == 5 * MINUTE
    assert found.run.unreachable_ms == EXPIRED


def test_no_time_at_all_makes_a_silent_job_a_dead_one():
    for make in (started, running):
        after = accepted(judge(make(), None, T0 + 10**12, 0.0))
        assert after.run.state in {"dispatching", "running"}
        assert after.lease is not None


# Row: lease live again, or aggregate moved on → resolved


@pytest.mark.parametrize("make", [claimed, started, running])
def test_a_live_lease_is_left_alone(make):
    found = make()
    assert refused(judge(found, None, EXPIRED - 1, 0.0)) == "live"
    renewed = accepted(renewal.renew(found, fence(found), LATE, LEASE_MS))
    assert refused(judge(renewed, None, LATE + LEASE_MS - 1, 0.0)) == "live"


def test_an_answer_that_it_runs_does_not_call_a_live_lease_unreachable():
    found = running()
    found = accepted(record(found, says(found, "running"), T0 + 5))
    assert found.lease.judge_ms == T0 + 5, 'new evidence clears "not before"'
    after = accepted(judge(found, says(found, "running"), T0 + 5, 0.0))
    assert after.run.unreachable_ms is None
    assert after.lease.judge_ms == after.lease.expires_ms


def test_pristine_and_final_attempts_are_no_candidates():
    assert refused(judge(admitted(), None, LATE, 0.0)) == "live"
    found = running()
    lost = accepted(judge(found, says(found, "not_running", "tree_gone"), LATE, 0.0))
    assert refused(judge(lost, None, LATE, 0.0)) == "live"


# Which evidence counts


def test_evidence_is_void_once_a_later_report_was_accepted():
    found = running()
    old = says(found, "not_running", "tree_gone")
    found = accepted(renewal.renew(found, fence(found), T0 + 1, LEASE_MS))
    after = accepted(judge(found, old, LATE, 0.0))
    assert after.run.state == "running"


def test_evidence_about_one_delivery_says_nothing_about_the_next():
    """I3: whatever the clock did in between."""
    found = claimed()
    old = says(found, "never_began", "not_begun", at_ms=T0 + 10**9, version=99)
    back = accepted(returning.hand_back(found, fence(found), "shutdown", T0, 0.0))
    again = started(claimed(back, number=2))
    assert again.lease.generation == 2
    after = accepted(judge(again, old, LATE, 0.0))
    assert (after.run.state, after.attempt.status) == ("dispatching", "starting")


def test_a_clock_that_stepped_back_does_not_void_good_evidence():
    found = running(now_ms=T0 + 10**7)
    answer = says(found, "not_running", "tree_gone", at_ms=T0)
    found = accepted(record(found, answer, T0))
    assert accepted(judge(found, answer, T0, 0.0)).run.state == "lost"


@pytest.mark.parametrize("fields", [{"attempt": 2}, {"step": "x"}])
def test_evidence_about_something_else_is_not_used(fields):
    found = running()
    answer = says(found, "not_running", "tree_gone", **fields)
    assert accepted(judge(found, answer, EXPIRED, 0.0)).run.state == "running"


@pytest.mark.parametrize(
    "who",
    [None, session(journal_id="other"), session(journal_revision=0)],
    ids=["nobody", "another journal", "an older copy"],
)
def test_only_the_journal_that_holds_the_lease_is_believed(who):
    """Case 10: another worker under the same name knows nothing about this attempt."""
    found = running()
    answer = believable(found, who, says(found, "not_running", "tree_gone"))
    assert (answer.answer, answer.proof) == ("unknown", "")
    assert accepted(judge(found, answer, EXPIRED, 0.0)).run.state == "running"


def test_a_newer_revision_of_the_same_journal_is_believed():
    found = running()
    answer = says(found, "not_running", "tree_gone")
    assert believable(found, session(journal_revision=7, session_id="later"), answer) == answer


def test_after_its_last_word_a_holder_cannot_take_it_back():
    found = running()
    found = accepted(record(found, says(found, "not_running", "tree_gone"), T0 + 5))
    assert refused(record(found, says(found, "running"), T0 + 6)) == "disowned"
    again = accepted(record(found, says(found, "not_running", "tree_gone"), T0 + 6))
    assert again.lease.disowned, "repeating it is harmless"


def test_nothing_is_recorded_about_what_has_no_lease():
    assert refused(record(admitted(), says(running(), "running"), T0)) == "not_leased"


def test_an_intent_decides_what_a_loss_becomes():
    """Cancel and deadline intents map first, in the settling that follows at once."""
    found = running(started(claimed(admitted(spec(safety="idempotent", retry=retry(9))))))
    found = accepted(ending.cancel(found, "ann", "", T0))
    gone = accepted(judge(found, says(found, "not_running", "tree_gone"), EXPIRED, 0.0))
    assert gone.run.state == "lost"
    assert accepted(settle(draft(None, gone), gone, 0.0)).run.state == "cancelled"


def test_case_22_19_a_verdict_after_a_renewal_changes_nothing():
    found = running()
    after = accepted(renewal.renew(found, fence(found), EXPIRED, LEASE_MS))
    assert refused(judge(after, None, EXPIRED, 0.0)) == "live"
