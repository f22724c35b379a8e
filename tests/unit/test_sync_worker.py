"""What a worker hears: offers by capacity, answers report by report, and the same again after a lost reply."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from qinglong.domain.completion import Result
from qinglong.domain.definitions import Overlap
from qinglong.errors import Conflict, Invalid, Unknown
from qinglong.limits import CLAIMS_PER_SYNC, LEASE_MS, REPORTS_PER_SYNC, SECOND
from qinglong.wire.worker import Report
from support.builders import spec
from support.lab import Lab
from support.plane import Worker

ALLOW = Overlap("allow")


@pytest.fixture
def lab(tmp_path):
    made = Lab(tmp_path)
    made.publish(spec(overlap=ALLOW))
    made.cycle()
    yield made
    made.close()


def admit(lab, count):
    return [lab.run() for _ in range(count)]


def begun(lab, worker, count=1):
    """So many Runs that the worker has begun."""
    ids = admit(lab, count)
    assert lab.go(worker.pull(count)) == ids
    for run_id in ids:
        lab.go(worker.begin(run_id))
    return ids


def done(worker, run_id, **fields):
    return Report("completed", worker.held[run_id], result=Result(exit_code=0), **fields)


def outcomes(reply):
    return [(answer.outcome, answer.reason) for answer in reply.answers]


# Offers


@pytest.mark.parametrize(
    ("slots", "wants", "granted"), [(3, 5, 3), (5, 3, 3), (0, 3, 0), (3, 0, 0), (9, 9, 8)]
)
def test_offers_are_bounded_by_slots_wants_and_the_limit_of_one_sync(lab, slots, wants, granted):
    assert CLAIMS_PER_SYNC == 8
    worker = lab.worker(max_runs=100)
    ids = admit(lab, 10)
    reply = lab.go(worker.sync(free_slots=slots, wants=worker.wants(wants)))
    assert [offer.run_id for offer in reply.offers] == ids[:granted]


def test_a_worker_never_holds_more_than_it_said_it_can(lab):
    worker = lab.worker(max_runs=2)
    ids = admit(lab, 5)
    assert lab.go(worker.pull(5)) == ids[:2]
    assert lab.go(worker.pull(5)) == []
    lab.go(worker.work(ids[0]))
    assert lab.go(worker.pull(5)) == ids[2:3]


def test_live_attempts_of_an_earlier_session_count_against_capacity(lab):
    first = lab.worker(max_runs=2)
    ids = admit(lab, 4)
    lab.go(first.pull(2))
    second = lab.worker(max_runs=2)
    assert lab.go(second.pull(2)) == []
    lab.clock.advance(LEASE_MS)
    lab.settle()
    lab.clock.advance(10 * SECOND)
    assert lab.go(second.pull(2)) == ids[:2]


def test_two_workers_never_get_the_same_run(lab):
    one, two = lab.worker("w1"), lab.worker("w2")
    ids = admit(lab, 6)

    async def both():
        return await asyncio.gather(one.pull(4), two.pull(4))

    first, second = lab.go(both())
    assert sorted(first + second) == ids
    assert not set(first) & set(second)


def test_a_lower_or_equal_seq_grants_nothing(lab):
    worker = lab.worker()
    ids = admit(lab, 3)
    assert lab.go(worker.pull(seq=5)) == ids[:1]
    assert lab.go(worker.pull(seq=5)) == []
    assert lab.go(worker.pull(seq=4)) == []
    assert lab.go(worker.pull(seq=6)) == ids[1:2]


def test_a_lost_reply_is_healed_by_the_same_sync(lab):
    worker = lab.worker()
    ids = admit(lab, 3)
    wants = worker.wants(2)
    first = lab.go(worker.sync(free_slots=2, wants=wants))
    lab.clock.advance(7 * SECOND)
    for seq in (1, 50):
        again = lab.go(worker.sync(free_slots=2, wants=wants, seq=seq))
        assert [offer.run_id for offer in again.offers] == ids[:2]
        for old, new in zip(first.offers, again.offers, strict=True):
            assert new.lease_in_ms == old.lease_in_ms - 7 * SECOND
            assert msgspec.structs.replace(new, lease_in_ms=old.lease_in_ms) == old
    assert lab.plane.workers.offers.granted == 2
    assert [lab.told(run_id, "offered") != [] for run_id in ids] == [True, True, False]


def test_a_lost_reply_is_healed_after_a_restart_of_the_server(lab):
    worker = lab.worker()
    (run_id,) = admit(lab, 1)
    wants = worker.wants(1)
    first = lab.go(worker.sync(free_slots=1, wants=wants))
    lab.restart()
    worker.plane = lab.plane
    assert lab.go(worker.sync(free_slots=1, wants=wants)).offers == (), "the door is shut"
    lab.cycle()
    assert lab.go(worker.sync(free_slots=1, wants=wants)).offers == first.offers
    assert first.offers[0].run_id == run_id


def test_an_offer_that_has_begun_is_not_offered_again(lab):
    worker = lab.worker()
    wants = worker.wants(1)
    (run_id,) = admit(lab, 1)
    lab.go(worker.sync(free_slots=1, wants=wants))
    lab.go(worker.begin(run_id))
    assert lab.go(worker.sync(free_slots=1, wants=wants)).offers == ()


def test_nobody_gets_an_offer_by_guessing_its_id(lab):
    worker = lab.worker("w1")
    admit(lab, 1)
    wants = worker.wants(1)
    lab.go(worker.sync(free_slots=1, wants=wants))
    thief = lab.worker("w2")
    assert lab.go(thief.sync(free_slots=1, wants=wants)).offers == ()
    forged = tuple(msgspec.structs.replace(want, token_digest="0" * 64) for want in wants)
    assert lab.go(worker.sync(free_slots=1, wants=forged)).offers == ()


def test_a_replaced_session_pulls_nothing_but_its_reports_count(lab):
    old = lab.worker()
    (run_id,) = begun(lab, old)
    new = lab.worker()
    admit(lab, 1)
    assert lab.go(old.pull()) == []
    assert lab.go(old.end(run_id)).outcome == "ok"
    assert len(lab.go(new.pull())) == 1


def test_a_draining_session_gets_nothing(lab):
    worker = lab.worker()
    admit(lab, 1)
    lab.go(lab.plane.workers.transition("w1", worker.session_id, worker.generation, "draining"))
    assert lab.go(worker.pull()) == []


def test_another_journal_under_a_live_name_is_refused_until_the_first_is_gone(lab):
    lab.worker(journal="a")
    other = Worker(lab.plane, journal="b")
    with pytest.raises(Conflict) as caught:
        lab.go(other.register())
    assert caught.value.code == "name_in_use"
    lab.go(lab.plane.workers.former_is_gone("w1"))
    lab.go(other.register())


def test_fences_rise_with_every_grant_over_restarts(lab):
    worker = lab.worker(max_runs=50)
    admit(lab, 9)
    lab.go(worker.pull(3))
    lab.restart()
    lab.cycle()
    worker.plane = lab.plane
    lab.go(worker.pull(3))
    lab.clock.advance(LEASE_MS)
    lab.settle()
    lab.clock.advance(10 * SECOND)
    again = lab.worker(max_runs=50)
    lab.go(again.pull(8))
    fences = [offer.fence for offer in [*worker.offers.values(), *again.offers.values()]]
    assert len(fences) == len(set(fences)) == 14
    assert min(offer.fence for offer in again.offers.values()) > max(o.fence for o in worker.offers.values())


# Reports


def test_one_bad_report_spoils_only_itself(lab):
    worker = lab.worker(max_runs=8)
    good, damaged, better = begun(lab, worker, 3)
    unknown = msgspec.structs.replace(worker.held[good], run_id="0" * 36)
    lab.store.tamper("DELETE FROM attempts WHERE run_id = ?", damaged)
    reports = [
        done(worker, good),
        done(worker, damaged),
        Report("completed", unknown, result=Result(exit_code=0)),
        Report("completed", worker.held[better]),
        done(worker, better),
    ]
    worker._heard = lambda report, answer: None
    reply = lab.go(worker.sync(*reports))
    assert outcomes(reply) == [
        ("ok", ""),
        ("refused", "damaged"),
        ("refused", "run_unknown"),
        ("refused", "malformed"),
        ("ok", ""),
    ]
    assert lab.state(good) == lab.state(better) == "succeeded"
    assert lab.plane.workers.reports.refused == 3


def test_a_report_that_cannot_be_stored_spoils_only_itself(lab):
    worker = lab.worker()
    first, second = admit(lab, 2)
    lab.go(worker.pull(2))
    for run_id in (first, second):
        lab.go(worker.say("starting", run_id))
    reply = lab.go(
        worker.sync(
            Report("running", worker.held[first], facts={"host": "\ud800"}),
            Report("running", worker.held[second], facts={"pid": 5}),
        )
    )
    assert [answer.outcome for answer in reply.answers] == ["refused", "ok"]
    assert lab.state(first) == "dispatching"
    assert lab.state(second) == "running"


def test_renewals_commit_first_and_apart(lab, monkeypatch):
    worker = lab.worker()
    one, two = begun(lab, worker, 2)
    lab.clock.advance(30 * SECOND)
    real = lab.store.ledger.transact

    async def fail(keys, decide):
        if keys.frees:
            raise Unknown("commit_unknown", "as if")
        return await real(keys, decide)

    monkeypatch.setattr(lab.store.ledger, "transact", fail)
    with pytest.raises(Unknown):
        lab.go(worker.sync(done(worker, one), Report("renew", worker.held[two])))
    assert lab.view(one).lease.expires_ms == lab.clock.wall + 30 * SECOND
    assert lab.view(two).lease.expires_ms == lab.clock.wall + LEASE_MS


def test_answers_come_in_the_order_of_the_reports(lab):
    worker = lab.worker()
    one, two = begun(lab, worker, 2)
    reply = lab.go(
        worker.sync(
            done(worker, one),
            Report("renew", worker.held[two]),
            Report("returned", worker.held[two], reason="declined"),
        )
    )
    assert outcomes(reply) == [("ok", ""), ("ok", ""), ("refused", "started")]


def test_running_and_completed_may_ride_together(lab):
    worker = lab.worker()
    (run_id,) = admit(lab, 1)
    lab.go(worker.pull())
    lab.go(worker.say("starting", run_id))
    reply = lab.go(worker.sync(Report("running", worker.held[run_id]), done(worker, run_id)))
    assert outcomes(reply) == [("ok", ""), ("ok", "")]
    assert [event.kind for event in lab.view(run_id).events] == [
        "admitted",
        "offered",
        "starting",
        "running",
        "completed",
    ]


def test_replaying_any_report_is_harmless(lab):
    worker = lab.worker()
    (run_id,) = admit(lab, 1)
    lab.go(worker.pull())
    sent = []
    for kind, fields in [("starting", {}), ("running", {}), ("completed", {"result": Result(exit_code=0)})]:
        report = Report(kind, worker.held[run_id], **fields)
        sent.append(report)
        assert lab.go(worker.sync(report)).answers[0].outcome == "ok"
        before = lab.view(run_id)
        assert lab.go(worker.sync(report)).answers[0].outcome == "replayed"
        assert lab.view(run_id) == before
    before = lab.view(run_id)
    for report in sent:
        answer = lab.go(worker.sync(report)).answers[0]
        assert answer.outcome in {"replayed", "refused"}
    assert msgspec.structs.replace(lab.view(run_id), late=0) == before


def test_a_token_is_never_stored(lab):
    worker = lab.worker()
    (run_id,) = begun(lab, worker)
    lab.go(worker.end(run_id))
    lab.go(worker.say("renew", run_id))
    token = worker.held[run_id].token
    assert lab.view(run_id).late == 1
    assert token.encode() not in lab.store.path.read_bytes()
    for (table,) in lab.store.rows("SELECT name FROM sqlite_schema WHERE type = 'table'"):
        assert token not in repr(lab.store.rows(f"SELECT * FROM {table}"))


def test_too_many_reports_are_refused_whole(lab):
    worker = lab.worker()
    (run_id,) = begun(lab, worker)
    reports = [Report("renew", worker.held[run_id])] * (REPORTS_PER_SYNC + 1)
    with pytest.raises(Invalid, match="at most"):
        lab.go(worker.sync(*reports))


def test_a_stop_rides_with_the_next_report_and_is_repeated(lab):
    worker = lab.worker()
    (run_id,) = begun(lab, worker)
    lab.go(lab.plane.control.cancel(run_id, by="tester"))
    for _ in range(2):
        reply = lab.go(worker.sync(Report("renew", worker.held[run_id])))
        assert [(found.run_id, found.reason) for found in reply.directives] == [(run_id, "cancel")]
    lab.go(worker.end(run_id, 143, stopped_by="cancel"))
    assert lab.state(run_id) == "cancelled"
    assert lab.go(worker.sync()).directives == ()


def test_after_a_restart_a_stop_is_told_to_the_successor(lab):
    worker = lab.worker()
    (run_id,) = begun(lab, worker)
    lab.go(lab.plane.control.cancel(run_id, by="tester"))
    lab.restart()
    worker = lab.worker()
    assert [found.run_id for found in lab.go(worker.sync()).directives] == [run_id]


def test_i4_a_second_completion_that_says_something_else_is_late_evidence(lab):
    worker = lab.worker()
    (run_id,) = admit(lab, 1)
    lab.go(worker.pull())
    lab.go(worker.say("starting", run_id))
    first = Report("completed", worker.held[run_id], result=Result(exit_code=0))
    assert lab.go(worker.sync(first)).answers[0].outcome == "ok"
    before = lab.view(run_id)
    other = Report("completed", worker.held[run_id], result=Result(exit_code=1))
    answer = lab.go(worker.sync(other)).answers[0]
    assert (answer.outcome, answer.reason) == ("refused", "not_leased")
    after = lab.view(run_id)
    assert after.late == before.late + 1
    assert msgspec.structs.replace(after, late=before.late) == before
    assert lab.go(worker.sync(first)).answers[0].outcome == "replayed"
