"""Any ledger: which Runs and triggers a step looks at, in which order, and when the next moment comes."""

from __future__ import annotations

import threading

import pytest
from msgspec.structs import replace

from qinglong.domain import ending, recovery, retrying, returning
from qinglong.domain.definitions import Overlap
from qinglong.domain.gates import group_key
from qinglong.domain.records import Evidence, Limit, Removed, Task, Trigger
from qinglong.errors import Damaged
from qinglong.ledger.port import Hints, Keys, Page, Pull
from qinglong.limits import HOUR, MINUTE, SECOND
from support.builders import LEASE_MS, fence, queue, retry, run_id, spec, task
from support.clock import T0
from support.stored import Bench

OTHER = spec("other", overlap=Overlap("allow"))


@pytest.fixture
def bench(store):
    made = Bench(store)
    made.define(OTHER)
    yield made
    made.close()


def ids(bench, count, of=OTHER, **fields):
    return [bench.admitted(number, of, **fields) for number in range(1, count + 1)]


def pull(bench, limit=16, wanted=(), placements=("",)):
    """(Runs that may be offered, Runs that were granted for a wanted offer id before)."""
    keys = Keys(worker="w1", pull=Pull(limit, placements, wanted))
    return bench.transact(keys, lambda draft: (draft.offered, draft.again))


def offers(bench, limit=16, **fields):
    return pull(bench, limit, **fields)[0]


def due(bench):
    return bench.go(bench.ledger.due())


def recover(bench, limit=16):
    return bench.go(bench.ledger.recover_page(limit))


def retries(bench, limit=16):
    return bench.go(bench.ledger.retry_page(limit))


def triggers(bench, limit=16):
    return bench.go(bench.ledger.trigger_page(limit))


def trigger(bench, number, next_ms):
    made = Trigger(f"trigger-{number}", task(OTHER).task_id, f"t{number}", b"{}", T0, T0, next_ms)
    bench.put(made)
    return made


# Offers


def test_offers_come_by_priority_and_then_oldest_first(bench):
    first = bench.admitted(1, OTHER)
    second = bench.admitted(2, OTHER)
    urgent = bench.admitted(3, OTHER, priority=5)
    idle = bench.admitted(4, OTHER, priority=-1)
    assert offers(bench) == (urgent, first, second, idle)
    assert offers(bench, 2) == (urgent, first)


def test_what_is_not_queued_is_not_offered(bench):
    claimed, held, over, waits = ids(bench, 4)
    bench.claimed(claimed)
    bench.through(over)
    bench.change(held, lambda found, now: ending.cancel(found, "", "", now))
    assert offers(bench) == (waits,)


def test_a_redelivery_is_offered_when_its_pause_is_over(bench):
    key, other = ids(bench, 2)
    bench.claimed(key)
    back = bench.change(
        key, lambda found, now: returning.hand_back(found, fence(found), "declined", now, 0.0)
    )
    assert offers(bench) == (other,)
    assert due(bench).next_ms == back.run.available_ms
    bench.clock.wall = back.run.available_ms
    assert offers(bench) == (key, other)
    assert due(bench).offers == ("",)


def test_what_was_granted_for_a_wanted_offer_is_told_again(bench):
    one, two, three = ids(bench, 3)
    bench.claimed(one, 1)
    bench.claimed(two, 2)
    assert pull(bench, wanted=("offer-2", "offer-9")) == ((three,), (two,))


# Recovery


def test_recovery_looks_at_expired_leases_oldest_first_and_never_at_pristine_claims(bench):
    one, two, three, _ = ids(bench, 4)
    for number, key in enumerate((two, one, three), 1):
        bench.claimed(key, number)
        bench.clock.advance(SECOND)
    assert recover(bench).ids == ()
    assert due(bench).recover is False
    assert due(bench).next_ms == T0 + LEASE_MS
    bench.clock.wall = T0 + LEASE_MS + SECOND
    assert due(bench).recover is True
    assert recover(bench) == Page((two, one), False)
    bench.clock.advance(HOUR)
    assert recover(bench, 2) == Page((two, one), True)
    bench.through(bench.admitted(9, OTHER), number=9)
    assert recover(bench).ids == (two, one, three)


def test_new_evidence_comes_before_the_end_of_the_lease(bench):
    one, two = ids(bench, 2)
    bench.claimed(one, 1)
    bench.claimed(two, 2)
    bench.started(two)
    told = Evidence(two, "", 1, "not_running", "attestation", T0, proof="tree_gone", generation=1)
    bench.change(two, lambda found, now: recovery.record(found, told, now))
    assert recover(bench).ids == (two,)
    assert due(bench).recover is True


def test_a_fruitless_look_puts_the_next_one_off(bench):
    (key,) = ids(bench, 1)
    bench.claimed(key)
    bench.started(key)
    bench.clock.advance(LEASE_MS)
    assert recover(bench).ids == (key,)
    kept = bench.change(key, lambda found, now: recovery.judge(found, None, now, 0.0))
    assert recover(bench).ids == ()
    assert due(bench).next_ms == kept.lease.judge_ms > bench.clock.wall


# Retry


def test_retry_looks_at_what_is_lost_due_or_late_oldest_first(bench):
    again = spec("again", overlap=Overlap("allow"), retry=retry(3, initial_ms=5_000))
    late = spec("late", overlap=Overlap("allow"), start_within_ms=MINUTE)
    ends = spec("ends", overlap=Overlap("allow"), deadline_ms=2 * MINUTE)
    bench.define(again, late, ends)
    failed, waits, runs = bench.admitted(1, again), bench.admitted(2, late), bench.admitted(3, ends)
    lost = bench.admitted(4, OTHER)
    failed_run = bench.through(failed, 1).run
    bench.claimed(runs, 2)
    bench.started(runs)
    bench.claimed(lost, 3)
    bench.started(lost)
    assert retries(bench).ids == ()
    assert due(bench).retry is False
    assert due(bench).next_ms == failed_run.available_ms
    told = Evidence(lost, "", 1, "not_running", "x", T0, proof="tree_gone", generation=1, version=9)
    bench.change(lost, lambda found, now: recovery.lose(found, told, now))
    assert retries(bench).ids == (lost,)
    assert due(bench).retry is True
    bench.clock.advance(HOUR)
    assert retries(bench) == Page((lost, failed, waits, runs), False)
    assert retries(bench, 3) == Page((lost, failed, waits), True)
    bench.change(lost, lambda found, now: retrying.settle_lost(found, now, 0.0))
    bench.change(failed, retrying.next_attempt)
    assert retries(bench).ids == (waits, runs)


def test_the_sweep_finds_the_oldest_held_run_of_each_gate_with_room(bench):
    one, two = (spec(name, overlap=queue(9), concurrency=name) for name in ("one", "two"))
    bench.define(one, two)
    first = [bench.admitted(number, one) for number in (1, 2, 3)]
    second = [bench.admitted(number, two) for number in (4, 5)]
    assert retries(bench) == Page((), False)
    assert due(bench).retry is False
    # An end that promoted nobody, as a crash between two versions of the rules could leave it.
    bench.through(first[0], number=1)
    bench.through(second[0], number=2)
    assert due(bench).retry is True
    assert retries(bench) == Page((first[1], second[1]), False)


def test_a_wider_group_lets_the_sweep_find_who_waits(bench):
    of = spec("grouped", overlap=Overlap("allow"), concurrency="group")
    bench.define(of)
    held = [bench.admitted(number, of) for number in (1, 2, 3)][1:]
    assert due(bench).retry is False
    bench.put(Limit(group_key("default", "group"), 2))
    assert due(bench).retry is True
    assert retries(bench).ids == (held[0],)


# Triggers


def test_triggers_come_when_they_are_due_oldest_first(bench):
    trigger(bench, 1, T0 + 3)
    trigger(bench, 2, T0 + 1)
    trigger(bench, 3, T0 + 9)
    trigger(bench, 4, None)
    assert triggers(bench).ids == ()
    assert (due(bench).trigger, due(bench).next_ms) == (False, T0 + 1)
    bench.clock.advance(3)
    assert triggers(bench) == Page(("trigger-2", "trigger-1"), False)
    assert triggers(bench, 1) == Page(("trigger-2",), True)
    assert (due(bench).trigger, due(bench).next_ms) == (True, None)
    bench.put(Removed("trigger-2"))
    assert triggers(bench).ids == ("trigger-1",)


def test_an_empty_ledger_has_nothing_due(bench):
    found = due(bench)
    assert (found.recover, found.retry, found.trigger, found.offers, found.next_ms) == (
        False,
        False,
        False,
        (),
        None,
    )


def test_open_runs_of_removed_tasks_are_found_unless_a_worker_holds_them(bench):
    waits, held, runs, over = ids(bench, 4)
    bench.claimed(held, 1)
    bench.claimed(runs, 2)
    bench.started(runs)
    bench.through(over, number=3)
    assert bench.go(bench.ledger.unstarted_of_removed()).ids == ()
    head: Task = task(OTHER)
    bench.put(replace(head, removed_ms=T0))
    assert bench.go(bench.ledger.unstarted_of_removed()).ids == (waits,)


# Hints


@pytest.fixture
def heard(bench):
    found: list[Hints] = []
    bench.ledger.on_commit(found.append)
    return found


def test_hints_tell_what_a_commit_made(bench, heard):
    key = bench.admitted(1, OTHER)
    assert heard[-1] == Hints(queued=("",), changed=(key,))
    bench.claimed(key)
    assert heard[-1] == Hints(due_ms=T0 + LEASE_MS, changed=(key,))
    bench.started(key)
    bench.change(key, lambda found, now: ending.cancel(found, "", "", now))
    assert heard[-1] == Hints(stops=("w1",), changed=(key,))
    bench.ended(key)
    assert heard[-1] == Hints(changed=(key,))
    trigger(bench, 1, T0 + 7)
    assert heard[-1] == Hints(due_ms=T0 + 7)


def test_hints_come_after_the_commit_and_on_the_loop(bench):
    seen = []

    def listen(hints):
        rows = bench.store.rows("SELECT run_id FROM runs")
        seen.append((threading.current_thread() is threading.main_thread(), rows))

    bench.ledger.on_commit(listen)
    bench.admitted(1, OTHER)
    assert seen == [(True, [(run_id(1),)])]


def test_a_failed_transaction_hints_nothing(bench, heard):
    def decide(draft):
        draft.puts.append(Trigger("t", "no-such-task", "t", b"{}", T0, T0, T0 + 1))

    with pytest.raises(Damaged):
        bench.transact(Keys(), decide)
    assert heard == []
