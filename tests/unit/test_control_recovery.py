"""A worker that has gone silent: what is kept, what is lost, what runs again, and why (I3, I4, D1 to D3)."""

from __future__ import annotations

import pytest

from qinglong.domain.completion import Result
from qinglong.limits import HOUR, LEASE_MS, MINUTE, RENEW_MS, RETURNS_MAX, SECOND
from qinglong.wire.worker import Report
from support.builders import retry, spec
from support.lab import Lab
from support.plane import Worker

SAFE = {"safety": "idempotent", "retry": retry(2, ("lost",), initial_ms=1_000)}


@pytest.fixture
def lab(tmp_path):
    made = Lab(tmp_path)
    yield made
    made.close()


def silent(lab, *, begun=True, **fields):
    """A Run whose worker has said nothing for longer than its lease; the worker's claim."""
    lab.publish(spec(**fields))
    lab.cycle()
    worker = lab.worker()
    run_id = lab.run()
    assert lab.go(worker.pull()) == [run_id]
    if begun:
        lab.go(worker.begin(run_id))
    lab.clock.advance(LEASE_MS + SECOND)
    lab.settle()
    return worker, run_id


def successor(lab, of, *, journal="", revision=1):
    """The next process under the name, with the journal's claims, and the questions it was asked."""
    made = Worker(lab.plane, of.name, journal=journal or of.journal)
    registered = lab.go(made.register(revision))
    made.held = dict(of.held)
    return made, [question.run_id for question in registered.questions]


def attest(lab, worker, run_id, answer, proof="tree_gone"):
    return lab.go(worker.say("attest", run_id, answer=answer, proof=proof))


def test_a_claim_that_expired_is_delivered_again_as_the_same_attempt(lab):
    worker, run_id = silent(lab, begun=False)
    view = lab.view(run_id)
    assert (view.run.state, view.run.attempt, view.run.barriers) == ("queued", 1, 0)
    assert view.lease is None
    assert view.attempts[0].pristine
    assert lab.go(worker.pull()) == [], "after a pause"
    lab.clock.advance(2 * SECOND)
    late = worker.held[run_id]
    other = lab.worker("w2")
    assert lab.go(other.pull()) == [run_id]
    assert other.held[run_id].generation == 2
    assert lab.go(worker.sync(Report("starting", late))).answers[0].reason == "fenced"
    assert lab.view(run_id).late == 1
    lab.go(other.work(run_id))
    assert lab.state(run_id) == "succeeded"


def test_a_run_that_nobody_begins_is_delivered_ever_more_slowly_and_shown(lab):
    lab.publish(spec())
    worker = lab.worker()
    lab.tick()
    lab.sleep(0)
    run_id = lab.run()
    gaps = []
    for _ in range(RETURNS_MAX + 2):
        assert lab.go(worker.pull(wait_ms=HOUR)) == [run_id]
        lab.go(worker.say("returned", run_id, reason="declined"))
        gaps.append(lab.view(run_id).run.available_ms - lab.clock.wall)
    told = lab.told(run_id, "returned")
    assert [event.data.get("undeliverable", False) for event in told] == [False] * 7 + [True] * 3
    assert gaps[0] <= SECOND
    assert gaps[-1] > 60 * SECOND
    assert lab.view(run_id).run.attempt == 1


def test_a_started_job_is_unreachable_and_never_lost_by_time_alone(lab):
    _, run_id = silent(lab, **SAFE)
    for _ in range(50):
        lab.clock.advance(HOUR)
        lab.settle()
    view = lab.view(run_id)
    assert view.run.state == "running"
    assert view.run.unreachable_ms is not None
    assert len(view.attempts) == 1
    assert view.lease is not None


@pytest.mark.parametrize("by", ["renew", "completed", "adopt"])
def test_who_comes_back_before_a_verdict_is_heard(lab, by):
    worker, run_id = silent(lab)
    if by == "adopt":
        worker, asked = successor(lab, worker)
        assert asked == [run_id]
    fields = {"result": Result(exit_code=0)} if by == "completed" else {}
    assert lab.go(worker.say(by, run_id, **fields)).outcome == "ok"
    lab.settle()
    view = lab.view(run_id)
    assert view.run.unreachable_ms is None
    assert view.run.state == ("succeeded" if by == "completed" else "running")
    kinds = [event.kind for event in view.events]
    assert kinds[-1] == {"renew": "reachable", "completed": "completed", "adopt": "adopted"}[by]


@pytest.mark.parametrize(
    ("fields", "state", "reason"),
    [
        ({}, "failed", "lost_retry_disabled"),
        ({"retry": retry(5, ("failed",))}, "failed", "lost_retry_disabled"),
        ({"retry": retry(1, ("lost",)), "safety": "idempotent"}, "failed", "lost_retry_disabled"),
        ({"retry": retry(5, ("lost",))}, "failed", "lost_retry_unsafe"),
        (SAFE, "retry_wait", "lost"),
        ({**SAFE, "safety": "deduplicated"}, "retry_wait", "lost"),
    ],
)
def test_d3_a_lost_job_runs_again_only_by_the_policy_of_its_admission(lab, fields, state, reason):
    worker, run_id = silent(lab, **fields)
    worker, _ = successor(lab, worker)
    assert attest(lab, worker, run_id, "not_running").outcome == "ok"
    lab.settle()
    view = lab.view(run_id)
    assert (view.run.state, view.run.reason) == (state, reason)
    assert (view.attempts[0].status, view.attempts[0].reason) == ("lost", "not_running")
    assert view.attempts[0].lease_end == "lease_expired"
    assert view.lease is None


def test_d3_an_edit_after_admission_changes_nothing_for_a_run(lab):
    worker, run_id = silent(lab)
    lab.publish(spec(**SAFE))
    worker, _ = successor(lab, worker)
    attest(lab, worker, run_id, "not_running")
    lab.settle()
    assert lab.state(run_id) == "failed"


def test_d3_losses_are_retried_until_the_attempts_are_used_up(lab):
    worker, run_id = silent(lab, **SAFE)
    for number in (1, 2):
        worker, _ = successor(lab, worker)
        attest(lab, worker, run_id, "not_running")
        lab.settle()
        if number == 2:
            break
        lab.clock.advance(2 * SECOND)
        lab.settle()
        assert lab.go(worker.pull()) == [run_id]
        lab.go(worker.begin(run_id))
    view = lab.view(run_id)
    assert (view.run.state, view.run.reason) == ("failed", "lost_retry_exhausted")
    assert [one.status for one in view.attempts] == ["lost", "lost"]


@pytest.mark.parametrize(
    ("fields", "state"), [({}, "cancelled"), ({"deadline_ms": 10 * MINUTE}, "timed_out")]
)
def test_d3_an_intent_comes_before_any_policy(lab, fields, state):
    worker, run_id = silent(lab, **SAFE, **fields)
    if fields:
        lab.clock.advance(fields["deadline_ms"])
        lab.settle()
    else:
        lab.go(lab.plane.control.cancel(run_id, by="tester"))
    assert lab.state(run_id) == "running", "a wish ends nothing that may be running"
    worker, _ = successor(lab, worker)
    attest(lab, worker, run_id, "not_running")
    lab.settle()
    assert lab.state(run_id) == state


def test_never_began_needs_no_policy_and_uses_no_attempt(lab):
    lab.publish(spec(retry=retry(1)))
    lab.cycle()
    worker = lab.worker()
    run_id = lab.run()
    lab.go(worker.pull())
    lab.go(worker.say("starting", run_id))
    worker, _ = successor(lab, worker)
    assert attest(lab, worker, run_id, "never_began", "not_begun").outcome == "ok"
    lab.settle()
    lab.clock.advance(2 * SECOND)
    lab.settle()
    view = lab.view(run_id)
    assert (view.run.state, view.run.attempt, view.run.barriers) == ("queued", 2, 0)
    assert lab.go(worker.pull()) == [run_id]
    lab.go(worker.work(run_id))
    assert lab.state(run_id) == "succeeded"


@pytest.mark.parametrize(
    ("answer", "proof"),
    [
        ("not_running", ""),
        ("not_running", "trust me"),
        ("unknown", ""),
        ("running", ""),
        ("never_began", "not_begun"),  # after `running` was reported this is a contradiction
    ],
)
def test_what_is_no_proof_decides_nothing(lab, answer, proof):
    worker, run_id = silent(lab, **SAFE)
    worker, _ = successor(lab, worker)
    attest(lab, worker, run_id, answer, proof)
    lab.settle()
    assert lab.state(run_id) == "running"
    assert lab.view(run_id).run.unreachable_ms is not None
    assert [one.answer for one in lab.view(run_id).evidence] == [answer]


@pytest.mark.parametrize(("journal", "revision"), [("another", 9), ("", 1)])
def test_another_journal_or_an_older_copy_of_it_proves_nothing(lab, journal, revision):
    lab.publish(spec(**SAFE))
    lab.cycle()
    worker = Worker(lab.plane)
    lab.go(worker.register(revision=5))
    run_id = lab.run()
    lab.go(worker.pull())
    lab.go(worker.begin(run_id))
    lab.clock.advance(LEASE_MS + SECOND)
    lab.settle()
    other, asked = successor(lab, worker, journal=journal, revision=revision)
    assert asked == [run_id], "the question is asked all the same"
    attest(lab, other, run_id, "not_running")
    lab.settle()
    assert lab.state(run_id) == "running"
    (evidence,) = lab.view(run_id).evidence
    assert (evidence.answer, evidence.proof) == ("unknown", "")
    assert lab.go(other.say("adopt", run_id)).reason == "journal"


def test_after_not_running_only_the_completion_is_still_accepted(lab):
    worker, run_id = silent(lab, **SAFE)
    attest(lab, worker, run_id, "not_running")
    assert lab.go(worker.say("renew", run_id)).reason == "disowned"
    assert lab.go(worker.end(run_id)).outcome == "ok"
    lab.settle()
    view = lab.view(run_id)
    assert view.run.state == "succeeded"
    assert len(view.attempts) == 1


def test_case_22_and_19_a_completion_after_the_verdict_changes_nothing_and_is_kept(lab):
    worker, run_id = silent(lab, **SAFE)
    attest(lab, worker, run_id, "not_running")
    lab.cycle()
    before = lab.view(run_id).run
    for _ in range(3):
        answer = lab.go(worker.end(run_id))
        assert (answer.outcome, answer.reason) == ("refused", "not_leased")
    after = lab.view(run_id)
    assert after.run == before
    assert after.late == 1


def test_case_17_nothing_that_an_old_holder_does_changes_any_state(lab):
    worker, run_id = silent(lab, **SAFE)
    old = worker.held[run_id]
    attest(lab, worker, run_id, "not_running")
    lab.settle()
    lab.clock.advance(2 * SECOND)
    lab.settle()
    new = lab.worker("w2")
    assert lab.go(new.pull()) == [run_id]
    lab.go(new.begin(run_id))
    before = lab.view(run_id)
    for kind in ("starting", "running", "renew", "adopt", "returned", "attest", "completed"):
        report = Report(kind, old, reason="declined", answer="not_running", result=Result(exit_code=0))
        assert lab.go(worker.sync(report)).answers[0].reason == "superseded"
    after = lab.view(run_id)
    assert (after.run, after.attempts, after.lease) == (before.run, before.attempts, before.lease)
    assert after.late == 7


def test_evidence_that_a_later_report_overtook_is_void(lab):
    worker, run_id = silent(lab, **SAFE)
    new, _ = successor(lab, worker)
    attest(lab, new, run_id, "running", "")
    assert lab.go(new.say("adopt", run_id)).outcome == "ok"
    lab.clock.advance(LEASE_MS + SECOND)
    lab.settle()
    assert lab.state(run_id) == "running"
    assert lab.view(run_id).run.unreachable_ms is not None


def test_case_24_a_job_of_twenty_minutes_on_default_settings_has_one_attempt(lab):
    lab.publish(spec())
    worker = lab.worker()
    lab.tick()
    lab.sleep(0)
    run_id = lab.run()
    lab.go(worker.pull())
    lab.go(worker.begin(run_id))
    for _ in range(20 * MINUTE // RENEW_MS):
        lab.sleep(RENEW_MS)
        assert lab.go(worker.say("renew", run_id)).outcome == "ok"
    lab.go(worker.end(run_id))
    view = lab.view(run_id)
    assert view.run.state == "succeeded"
    assert [one.number for one in view.attempts] == [1]
    assert [event.kind for event in view.events] == [
        "admitted",
        "offered",
        "starting",
        "running",
        "completed",
    ]
    assert lab.plane.control.cadence.cycles < 30, "renewals only move the moment of judgement away"


def test_case_10_an_attempt_is_found_whatever_became_of_its_session(lab):
    worker, run_id = silent(lab, **SAFE)
    lab.store.tamper("DELETE FROM sessions")
    lab.settle()
    worker, asked = successor(lab, worker)
    assert asked == [run_id]
    attest(lab, worker, run_id, "not_running", "boot_changed")
    lab.settle()
    assert lab.state(run_id) == "retry_wait"


def test_case_21_a_cancelled_run_is_never_dispatched_again(lab):
    lab.publish(spec(**SAFE))
    lab.cycle()
    worker = lab.worker()
    run_id = lab.run()
    lab.go(lab.plane.control.cancel(run_id, by="tester"))
    lab.restart()
    lab.settle()
    worker = lab.worker()
    assert lab.go(worker.pull()) == []
    assert lab.state(run_id) == "cancelled"
    lab.go(lab.plane.control.cancel(lab.run(), by="tester"))


def test_a_cancel_between_offer_and_start_wins_over_the_start(lab):
    lab.publish(spec())
    lab.cycle()
    worker = lab.worker()
    run_id = lab.run()
    lab.go(worker.pull())
    lab.go(lab.plane.control.cancel(run_id, by="tester"))
    assert lab.state(run_id) == "cancelled"
    assert lab.go(worker.say("starting", run_id)).outcome == "refused"


def test_case_29_many_lost_runs_come_back_page_by_page(lab):
    lab.publish(*(spec(f"task-{n:03}", **SAFE) for n in range(60)))
    lab.cycle()
    worker = lab.worker(max_runs=100)
    ids = [lab.run(f"task-{n:03}") for n in range(60)]
    while lab.go(worker.pull(8)):
        pass
    for run_id in ids:
        lab.go(worker.begin(run_id))
    worker, _ = successor(lab, worker)
    for run_id in ids:
        attest(lab, worker, run_id, "not_running")
    decided = []
    while True:
        again, _ = lab.cycle()
        decided.append(sum(lab.state(run_id) != "running" for run_id in ids))
        if not again:
            break
    steps = [after - before for before, after in zip([0, *decided], decided, strict=False)]
    assert max(steps) == 16
    assert decided[-1] == 60
    assert {lab.state(run_id) for run_id in ids} == {"retry_wait"}
