"""What a worker hears: times left, versions, directives; and what a full cache, a shut door or a long list do."""

from __future__ import annotations

import asyncio

import pytest

from qinglong.control import offers
from qinglong.domain.definitions import Overlap
from qinglong.ledger.port import RunFilter
from qinglong.limits import LIST_CAP
from qinglong.wire.worker import Report
from support.builders import every, queue, spec
from support.lab import Lab


@pytest.fixture
def lab(tmp_path):
    made = Lab(tmp_path)
    yield made
    made.close()


def begun(lab, **fields):
    lab.publish(spec(**fields))
    lab.settle()
    run, worker = lab.run(), lab.worker()
    assert lab.go(worker.pull()) == [run]
    return run, worker


def test_the_barrier_tells_how_long_the_attempt_may_run_and_a_repetition_how_long_it_still_may(lab):
    run, worker = begun(lab, timeout_ms=90_000)
    starting = Report("starting", worker.held[run])
    (answer,) = lab.go(worker.sync(starting)).answers
    assert (answer.outcome, answer.timeout_in_ms) == ("ok", 90_000)
    lab.clock.advance(20_000)
    (answer,) = lab.go(worker.sync(starting)).answers
    assert (answer.outcome, answer.timeout_in_ms) == ("replayed", 70_000)
    answer = lab.go(worker.say("running", run))
    assert (answer.outcome, answer.timeout_in_ms) == ("ok", None)


def test_a_successor_hears_how_long_is_left_and_never_less_than_nothing(lab):
    run, worker = begun(lab, timeout_ms=30_000)
    lab.go(worker.begin(run))
    for left in (10_000, 0):
        lab.clock.advance(20_000)
        heir = lab.worker(worker.name, journal=worker.journal)
        heir.held = dict(worker.held)
        answer = lab.go(heir.say("adopt", run))
        assert (answer.outcome, answer.timeout_in_ms) == ("ok", left)
        worker = heir


def test_without_a_timeout_there_is_none_to_tell(lab):
    run, worker = begun(lab)
    assert lab.go(worker.say("starting", run)).timeout_in_ms is None


def test_who_asked_is_on_record(lab):
    lab.publish(spec())
    run = lab.run(by="ann")
    assert lab.told(run, "admitted")[0].data["by"] == "ann"
    lab.go(lab.plane.control.cancel(run, by="bob", reason="wrong day"))
    assert lab.told(run, "cancelled")[0].data["by"] == "bob"
    assert lab.view(run).run.intent.by == "bob"


def test_a_full_cache_of_revisions_forgets_nothing_that_is_asked_for(lab, monkeypatch):
    monkeypatch.setattr(offers, "_CACHED", 2)
    names = [f"t{number}" for number in range(8)]
    lab.publish(*(spec(name) for name in names))
    lab.settle()
    worker = lab.worker(max_runs=64)
    for _ in range(3):
        runs = {lab.run(name) for name in names}
        got = set()
        while len(got) < len(names):
            pulled = lab.go(worker.pull(3))
            assert pulled
            got |= set(pulled)
        assert got == runs
        for run in runs:
            lab.go(worker.work(run))
    assert {worker.offers[run].spec.name for run in runs} == set(names)
    assert len(lab.plane.workers.offers._cache) <= len(names)


def test_removing_many_tasks_cancels_every_waiting_run_of_theirs(lab):
    """More than one page of them."""
    lab.publish(spec(overlap=queue(200)))
    runs = [lab.run() for _ in range(150)]
    lab.publish()
    assert {lab.state(run) for run in runs} == {"cancelled"}
    assert lab.store.rows("SELECT count(*) FROM places") == [(0,)]


def test_a_list_is_capped_whatever_is_asked_for(lab):
    lab.publish(spec(overlap=queue(LIST_CAP + 20)))
    for _ in range(LIST_CAP + 5):
        lab.run()
    for where in (RunFilter(limit=10**6), RunFilter(limit=10**6, state="open")):
        assert len(lab.go(lab.store.queries.runs(where))) == LIST_CAP


def test_following_a_run_does_not_wait_for_what_has_happened(lab):
    lab.publish(spec())
    run = lab.run()
    control, now = lab.plane.control, lab.clock.wall_ms()
    assert lab.go(control.changed(run, 0, 60_000)) == 1
    assert lab.go(control.changed(run, 1, 0)) == 1
    assert lab.clock.wall_ms() == now
    assert lab.go(control.changed(run, 1, 5_000)) == 1
    assert lab.clock.wall_ms() == now + 5_000


def test_i7_a_cycle_that_hangs_shuts_the_door_until_it_comes_back(lab, monkeypatch):
    lab.publish(spec())
    lab.cycle()
    ledger, door = lab.store.ledger, lab.plane.control.door
    due, seen = ledger.due, []

    async def slow():
        for _ in range(2):
            await asyncio.sleep(31)
            seen.append(door.reasons)
        return await due()

    monkeypatch.setattr(ledger, "due", slow)
    lab.cycle()
    assert seen == [(), ("the cycle is overdue",)]
    assert door.is_open


def test_occurrences_behind_a_shut_door_are_looked_at_again_within_a_cadence(lab):
    lab.publish(spec(triggers=(every(60_000),)))
    lab.settle()
    lab.plane.control.door.disk("the disk is nearly full")
    lab.clock.advance(60_000)
    again, next_ms = lab.cycle()
    assert (again, next_ms) == (False, lab.clock.wall_ms() + 1_000)
    assert lab.runs() == []
    lab.plane.control.door.disk("")
    lab.settle()
    assert len(lab.runs()) == 1


def test_a_place_that_nobody_could_be_promoted_to_asks_for_the_sweep(lab):
    """An older Run of another revision is replaced, and leaves a group that the new one does not enter."""
    replace = Overlap("replace")
    lab.publish(
        spec("a", overlap=replace, concurrency="db"),
        spec("b", concurrency="db"),
        concurrency_groups={"db": 1},
    )
    lab.settle()
    first, waits = lab.run("a"), lab.run("b")
    assert lab.state(waits) == "created"
    lab.publish(spec("a", overlap=replace), spec("b", concurrency="db"), concurrency_groups={"db": 1})
    lab.settle()
    heard = []
    lab.store.ledger.on_commit(heard.append)
    lab.run("a")
    assert lab.state(first) == "cancelled"
    assert heard[-1].due_ms <= lab.clock.wall_ms(), "nothing else would wake the cycle"
    lab.settle()
    assert lab.state(waits) == "queued"
