"""``transact`` on SQLite: all or nothing, compared and set, and what the database itself refuses."""

from __future__ import annotations

import asyncio

import pytest
from msgspec.structs import replace

from qinglong.domain import activation, dispatch, renewal
from qinglong.domain.change import Aggregate, Change, event
from qinglong.domain.completion import Result, complete
from qinglong.domain.records import (
    Evidence,
    LateEvidence,
    Limit,
    Occurrence,
    RunKey,
)
from qinglong.domain.returning import hand_back
from qinglong.errors import Conflict, Damaged, Unavailable
from qinglong.ledger.port import Hints, Keys
from qinglong.ledger.sqlite.load import load
from qinglong.limits import LATE_EVIDENCE_PER_ATTEMPT, MINUTE
from support.builders import (
    accepted,
    every,
    fence,
    queue,
    retry,
    session,
    spec,
    want,
)
from support.clock import T0, FakeClock
from support.kernel import Kernel
from support.store import Store

TABLES = (
    *("runs", "attempts", "leases", "events", "queue", "due", "places", "occurrences", "run_keys"),
    *("evidence", "late_evidence", "sessions", "counters", "tasks", "revisions", "triggers", "limits"),
)


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture
def store(tmp_path, clock):
    opened = Store(tmp_path, clock, durable=False)
    yield opened
    opened.close()


@pytest.fixture
def kernel(store):
    return Kernel(store.ledger)


def everything(store):
    return {table: sorted(map(repr, store.rows(f"SELECT * FROM {table}"))) for table in TABLES}


class Halt(Exception):
    """Raised by a decision."""


def test_i1_a_run_is_stored_with_its_attempt_event_and_index_rows_at_once(kernel, store):
    kernel.publish(spec(start_within_ms=MINUTE, overlap=queue(1)))
    run = kernel.admit()
    found = kernel.get(run)
    assert (found.run.state, found.run.version, found.attempt.pristine) == ("queued", 1, True)
    assert store.rows("SELECT version, kind FROM events") == [(1, "admitted")]
    assert store.rows("SELECT run_id FROM queue") == [(run,)]
    assert store.rows("SELECT run_id, due_ms FROM due") == [(run, T0 + MINUTE)]
    assert store.rows("SELECT waits, run_id FROM places") == [(0, run)]


def test_what_was_stored_is_what_is_loaded(kernel):
    of = spec(
        safety="idempotent",
        retry=retry(3, initial_ms=7_000, factor=1.5),
        overlap=queue(2),
        concurrency="db",
        timeout_ms=5_000,
        deadline_ms=10**9,
    )
    kernel.publish(of, concurrency_groups={"db": 3})
    run = kernel.admit(priority=7, cause="cron", scheduled_ms=T0 - 5_000)
    made = [kernel.grant(run), kernel.start(run), kernel.run(run)]
    for step, after in zip(("offered", "starting", "running"), made, strict=True):
        assert after.run.version == made.index(after) + 2, step
    assert kernel.get(run) == made[-1]
    cancelled = kernel.cancel(run)
    assert cancelled.run.intent.by == "ann"
    assert kernel.get(run) == cancelled
    ended = kernel.end(run, 3)
    assert kernel.get(run) == ended
    assert ended.run.state == "cancelled"


def test_an_exception_in_the_decision_stores_nothing(kernel, store):
    kernel.publish(spec(), spec("other"))
    run = kernel.admit()
    before = everything(store)

    def decide(draft):
        found = draft.get(run)
        draft.apply(dispatch.grant(found, session(), want(), draft.next_fence(), draft.now_ms, 60_000))
        draft.puts.append(Limit("group:default:db", 5))
        draft.session = session()
        raise Halt

    with pytest.raises(Halt):
        kernel.transact(Keys(runs=(run,), worker="w1", fences=True), decide)
    assert everything(store) == before


def test_a_decision_that_changes_nothing_stores_nothing_and_hints_nothing(kernel, store):
    kernel.publish(spec())
    kernel.admit()
    before, heard = everything(store), []
    store.ledger.on_commit(heard.append)
    assert kernel.transact(Keys(), lambda draft: "answer") == "answer"
    assert everything(store) == before
    assert heard == []


def test_a_draft_that_breaks_a_rule_is_refused_as_a_whole(kernel, store):
    kernel.publish(spec())
    run = kernel.admit()
    before = everything(store)

    def decide(draft):
        draft.puts.append(Limit("group:default:db", 5))
        found = draft.get(run)
        now, told = event(replace(found.run, state="running"), draft.now_ms, "running")
        draft.apply(Change(Aggregate(now, found.attempt, None), (told,)))

    with pytest.raises(Damaged, match="cannot go from queued to running"):
        kernel.transact(Keys(runs=(run,), frees=True), decide)
    assert everything(store) == before


TAMPERINGS = {
    "the run's version": "UPDATE runs SET version = version + 1",
    "the run is gone": "DELETE FROM runs",
    "the attempt's status": "UPDATE attempts SET status = 'starting'",
    "the attempt's generation": "UPDATE attempts SET lease_generation = 5",
    "the lease's version": "UPDATE leases SET version = version + 1",
    "the lease's generation": "UPDATE leases SET generation = generation + 1",
    "the lease is gone": "DELETE FROM leases",
    "its place is gone": "DELETE FROM places",
}


@pytest.mark.parametrize("what", TAMPERINGS)
def test_a_record_that_is_not_as_it_was_loaded_is_a_conflict_and_stores_nothing(
    kernel, store, monkeypatch, what
):
    """As a rival replica would: between what is loaded and what is stored."""
    kernel.publish(spec())
    run = kernel.admit()
    kernel.grant(run)

    def load_beside_a_rival(db, *rest):
        draft = load(db, *rest)
        db.execute(TAMPERINGS[what])
        return draft

    def decide(draft):
        found = draft.get(run)
        begun = activation.starting(found, fence(found), draft.now_ms, 60_000)
        draft.apply(begun)
        after = begun.after
        draft.apply(complete(after, fence(after), Result(exit_code=0), draft.now_ms, 0.0))

    before = everything(store)
    monkeypatch.setattr("qinglong.ledger.sqlite.store.load", load_beside_a_rival)
    with pytest.raises(Conflict) as caught:
        kernel.transact(Keys(runs=(run,), frees=True), decide)
    assert caught.value.code == "compare_and_set"
    assert everything(store) == before


def test_a_session_that_moved_on_is_a_conflict(kernel, store):
    kernel.register(generation=5)

    def decide(draft):
        draft.session = session(generation=4, session_id="old")

    with pytest.raises(Conflict):
        kernel.transact(Keys(worker="w1"), decide)
    assert store.rows("SELECT session_id, generation FROM sessions") == [("w1-s1", 5)]


def test_the_fence_counter_never_goes_back(kernel, store):
    kernel.publish(spec(), spec("other"))
    numbers = []
    for name in ("backup", "other"):
        run = kernel.admit(name)
        numbers.append(kernel.grant(run).attempt.fence)
    assert numbers == [1, 2]

    def reckless(draft):
        draft.fence = 0
        draft.next_fence()

    with pytest.raises(Conflict):
        kernel.transact(Keys(fences=True), reckless)
    assert store.rows("SELECT value FROM counters WHERE name = 'fence'") == [(2,)]


def test_a_damaged_record_is_named_and_repaired_by_nobody(kernel, store):
    kernel.publish(spec())
    run = kernel.admit()
    store.tamper("DELETE FROM attempts")
    before = everything(store)
    with pytest.raises(Damaged, match=f"run {run} has no attempt 1"):
        kernel.get(run)
    assert everything(store) == before


def test_i6_an_occurrence_is_stored_once_whatever_asks(kernel, store):
    row = Occurrence("t", "k", T0, T0, 1, None, "missed")
    kernel.transact(Keys(), lambda draft: draft.puts.append(row))
    with pytest.raises(Damaged):
        kernel.transact(Keys(), lambda draft: draft.puts.append(replace(row, reason="overlap")))
    assert store.rows("SELECT reason FROM occurrences") == [("missed",)]


def test_an_idempotency_key_is_bound_once(kernel, store):
    key = RunKey("default", "k", "digest", "run-1")
    kernel.transact(Keys(), lambda draft: draft.puts.append(key))
    with pytest.raises(Damaged):
        kernel.transact(Keys(), lambda draft: draft.puts.append(replace(key, run_id="run-2")))
    assert store.rows("SELECT run_id FROM run_keys") == [("run-1",)]


def test_i4_late_evidence_is_one_row_per_digest_and_capped(kernel, store):
    def late(number, attempt=1):
        return LateEvidence("r", "", attempt, f"digest-{number}", T0, "fenced", "{}")

    for number in [*range(LATE_EVIDENCE_PER_ATTEMPT + 5), 0, 0, 1]:
        kernel.transact(Keys(), lambda draft, number=number: draft.puts.append(late(number)))
    kernel.transact(Keys(), lambda draft: draft.puts.append(late(0, attempt=2)))
    counts = store.rows("SELECT attempt, count(*) FROM late_evidence GROUP BY attempt ORDER BY attempt")
    assert counts == [(1, LATE_EVIDENCE_PER_ATTEMPT), (2, 1)]


def test_the_newest_answer_of_a_provider_counts_whatever_the_clock_says(kernel, store):
    def answer(word, generation, version, at_ms, provider="attestation"):
        return Evidence("r", "", 1, word, provider, at_ms, "", "", generation, version)

    for one in (
        answer("running", 1, 3, T0),
        answer("unknown", 1, 4, T0 - 10**6),
        answer("running", 1, 2, T0 + 10**6),
        answer("not_running", 1, 1, T0, provider="reboot"),
    ):
        kernel.transact(Keys(), lambda draft, one=one: draft.puts.append(one))
    assert store.rows("SELECT provider, answer FROM evidence ORDER BY provider") == [
        ("attestation", "unknown"),
        ("reboot", "not_running"),
    ]


def test_a_lease_that_is_renewed_and_ended_in_one_transaction_is_folded(kernel, store):
    """A short job's running rides with its completion: one transaction, no second round."""
    kernel.publish(spec())
    run = kernel.admit()
    kernel.grant(run)
    kernel.start(run)

    def decide(draft):
        found = draft.get(run)
        mine = fence(found)
        for rule in (
            lambda now: renewal.renew(now, mine, draft.now_ms, 60_000),
            lambda now: activation.running(now, mine, draft.now_ms, 60_000, {}),
            lambda now: complete(now, mine, Result(exit_code=0), draft.now_ms, 0.0),
        ):
            draft.apply(rule(draft.get(run)))
        return draft.get(run)

    after = kernel.transact(Keys(runs=(run,), frees=True), decide)
    assert kernel.get(run) == after
    assert after.run.state == "succeeded"
    assert store.rows("SELECT count(*) FROM leases") == [(0,)]
    kinds = [kind for (kind,) in store.rows("SELECT kind FROM events ORDER BY version")]
    assert kinds == ["admitted", "offered", "starting", "running", "completed"]


def test_a_lease_that_ends_and_is_granted_again_in_one_transaction(kernel, store):
    kernel.publish(spec())
    run = kernel.admit()
    kernel.grant(run)

    def decide(draft):
        found = draft.get(run)
        back = hand_back(found, fence(found), "shutdown", draft.now_ms, 0.0)
        draft.apply(back)
        draft.apply(dispatch.grant(back.after, session("w2"), want(9), 9, draft.now_ms, 60_000))

    kernel.transact(Keys(runs=(run,), frees=True), decide)
    assert store.rows("SELECT worker, generation FROM leases") == [("w2", 2)]


def test_many_runs_change_in_one_transaction(kernel):
    kernel.publish(*(spec(f"t{number}") for number in range(40)))
    runs = [kernel.admit(f"t{number}") for number in range(40)]
    kernel.register()

    def decide(draft):
        for number, run in enumerate(runs):
            change = dispatch.grant(
                draft.get(run), draft.session, want(number), draft.next_fence(), draft.now_ms, 60_000
            )
            accepted(change)
            draft.apply(change)

    kernel.transact(Keys(worker="w1", runs=tuple(runs), fences=True), decide)
    assert {kernel.get(run).run.state for run in runs} == {"dispatching"}
    assert sorted(kernel.get(run).attempt.fence for run in runs) == list(range(1, 41))


def test_i11_the_clock_is_read_inside_the_transaction(kernel, clock):
    async def both():
        slow = kernel.ledger.transact(Keys(), lambda draft: (clock.advance(5_000), draft.now_ms)[1])
        after = kernel.ledger.transact(Keys(), lambda draft: draft.now_ms)
        return await asyncio.gather(slow, after)

    assert asyncio.run(both()) == [T0, T0 + 5_000]


def test_hints_come_after_the_commit_and_say_what_it_made(kernel, store):
    kernel.publish(spec(start_within_ms=MINUTE), spec("timed", triggers=(every(90_000),)))
    heard = []

    def listen(hints):
        assert isinstance(hints, Hints)
        heard.append((hints, store.rows("SELECT max(version) FROM runs")))

    store.ledger.on_commit(listen)
    run = kernel.admit()
    hints, seen = heard.pop()
    assert (hints.queued, hints.due_ms, hints.changed) == (("",), T0 + MINUTE, (run,))
    assert seen == [(1,)], "it was committed when it was told"
    kernel.grant(run)
    hints, _ = heard.pop()
    assert not hints.queued
    assert hints.due_ms == T0 + 60_000, "recovery wakes for the lease"
    kernel.start(run)
    kernel.change(run, lambda draft, found: renewal.renew(found, fence(found), draft.now_ms, 60_000))
    heard.clear()
    kernel.cancel(run)
    hints, _ = heard.pop()
    assert hints.stops == ("w1",)


def test_no_hint_of_a_transaction_that_failed(kernel, store):
    heard = []
    store.ledger.on_commit(heard.append)

    def decide(draft):
        draft.puts.append(Limit("group:default:db", 1))
        raise Halt

    with pytest.raises(Halt):
        kernel.transact(Keys(), decide)
    assert heard == []


def test_a_closed_ledger_says_so(kernel, store):
    asyncio.run(store.ledger.close())
    with pytest.raises(Unavailable) as caught:
        kernel.transact(Keys(), lambda draft: None)
    assert caught.value.code == "ledger_closed"
