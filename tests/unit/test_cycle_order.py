"""One cycle: recover, retry, trigger; what fails closed and what fails alone (D4, I7)."""

from __future__ import annotations

import pytest

from qinglong.domain.definitions import Overlap
from qinglong.errors import Conflict, Unavailable, Unknown
from qinglong.limits import LEASE_MS, MINUTE, SECOND
from support.builders import cron, every, retry, spec
from support.lab import Lab


@pytest.fixture
def lab(tmp_path):
    made = Lab(tmp_path)
    yield made
    made.close()


def broken(step, monkeypatch, error=None):
    """Make one step of the cycle throw until the returned function is called."""

    async def fail(*_, **__):
        raise error or Unavailable("database_error", "the disk has gone")

    monkeypatch.setattr(step, "step", fail)
    return lambda: monkeypatch.undo()


def everything_due(lab):
    """An expired claim, a due retry and a due trigger at the same moment."""
    tasks = (
        spec("fails", retry=retry(initial_ms=1_000)),
        spec("claimed"),
        spec("ticks", triggers=(every(MINUTE, missed=latest()),)),
    )
    lab.publish(*tasks)
    worker = lab.worker()
    lab.cycle()
    failed = lab.run("fails")
    assert lab.go(worker.pull()) == [failed]
    lab.go(worker.work(failed, 1))
    claimed = lab.run("claimed")
    assert lab.go(worker.pull()) == [claimed]
    lab.clock.advance(LEASE_MS + SECOND)
    return failed, claimed


def latest():
    return every(MINUTE).missed


def test_d4_the_steps_run_in_their_order(lab, monkeypatch):
    everything_due(lab)
    cycle = lab.plane.control.cycle
    order = []
    for name in ("trigger", "retry", "recover"):
        step = getattr(cycle, name)

        async def noted(name=name, was=step.step, **given):
            order.append(name)
            return await was(**given)

        monkeypatch.setattr(step, "step", noted)
    lab.cycle()
    assert order == ["recover", "retry", "trigger"]


def test_d4_one_cycle_does_all_that_is_due(lab):
    failed, claimed = everything_due(lab)
    lab.settle()
    assert lab.state(failed) == "queued"
    assert lab.view(failed).run.attempt == 2
    assert lab.state(claimed) == "queued"
    assert lab.view(claimed).run.attempt == 1
    assert [run.cause for run in lab.runs("ticks")] == ["every"]


@pytest.mark.parametrize("name", ["recover", "retry"])
def test_i7_a_failure_in_recovery_or_retry_shuts_the_door_and_ends_the_cycle(lab, monkeypatch, name):
    everything_due(lab)
    worker = lab.worker()
    waiting = lab.run("ticks")
    repaired = broken(getattr(lab.plane.control.cycle, name), monkeypatch)
    for _ in range(2):
        again, next_ms = lab.cycle()
        assert not again
        assert next_ms == lab.clock.wall + SECOND, "it is tried again soon, and not at once"
        assert not lab.plane.control.door.is_open
        assert "the disk has gone" in lab.plane.control.reasons_not_ready()[0]
        assert lab.go(worker.pull(4)) == [], "no offers"
        assert [run.cause for run in lab.runs("ticks")] == ["manual"], "no occurrences"
        stored = lab.run("claimed", allow_overlap=True)
        assert lab.state(stored) == "queued", "what people ask for is stored and waits"
    repaired()
    lab.settle()
    assert lab.plane.control.door.is_open
    assert waiting in lab.go(worker.pull(8))


def test_i7_the_door_is_shut_until_the_first_cycle_has_finished(lab):
    lab.publish(spec())
    worker = lab.worker()
    run_id = lab.run()
    assert lab.go(worker.pull()) == []
    lab.cycle()
    assert lab.go(worker.pull()) == [run_id]


def test_i7_a_question_that_cannot_be_asked_shuts_the_door(lab, monkeypatch):
    lab.cycle()

    async def due():
        raise Unknown("commit_unknown", "no answer")

    monkeypatch.setattr(lab.store.ledger, "due", due)
    lab.cycle()
    assert not lab.plane.control.door.is_open


def test_i7_reports_are_heard_while_the_door_is_shut(lab, monkeypatch):
    lab.publish(spec())
    worker = lab.worker()
    lab.cycle()
    run_id = lab.run()
    lab.go(worker.pull())
    lab.go(worker.begin(run_id))
    lab.plane.control.door.cycle_failed("as if")
    lab.go(worker.end(run_id))
    assert lab.state(run_id) == "succeeded"


def test_i7_the_door_shuts_when_a_cycle_is_overdue_and_opens_when_it_returns(lab):
    door = lab.plane.control.door
    lab.cycle()
    door.cycle_begun()
    assert door.is_open
    lab.clock.advance(60 * SECOND - 1)
    assert door.is_open
    lab.clock.advance(1)
    assert door.reasons == ("the cycle is overdue",)
    assert door.cycle_ok() is True, "who waits for work hears of it"
    assert door.is_open


def test_the_whole_page_is_tried_before_the_first_failure_is_raised(lab):
    lab.publish(spec("a"), spec("b"), spec("c"))
    worker = lab.worker()
    lab.cycle()
    ids = [lab.run(name) for name in "abc"]
    assert lab.go(worker.pull(3)) == ids
    lab.store.tamper("DELETE FROM attempts WHERE run_id = ?", ids[0])
    lab.clock.advance(LEASE_MS + SECOND)
    lab.cycle()
    assert not lab.plane.control.door.is_open, "a damaged record stops decisions"
    assert [lab.store.rows("SELECT state FROM runs WHERE run_id = ?", run_id) for run_id in ids] == [
        [("dispatching",)],
        [("queued",)],
        [("queued",)],
    ]


def test_raced_is_counted_and_no_failure(lab, monkeypatch):
    everything_due(lab)
    real = lab.store.ledger.transact

    async def raced(keys, decide):
        if keys.evidence or keys.frees:
            raise Conflict("compare_and_set", "somebody was first")
        return await real(keys, decide)

    monkeypatch.setattr(lab.store.ledger, "transact", raced)
    lab.cycle()
    cycle = lab.plane.control.cycle
    assert (cycle.recover.raced, cycle.retry.raced) == (1, 1)
    assert cycle.outcomes["failed"] == 0
    assert lab.plane.control.door.is_open
    assert len(lab.runs("ticks")) == 1


def test_a_failure_of_the_trigger_step_stops_nothing_else(lab, monkeypatch):
    _, claimed = everything_due(lab)
    worker = lab.worker()
    repaired = broken(lab.plane.control.cycle.trigger, monkeypatch)
    lab.cycle()
    assert lab.plane.control.door.is_open
    assert lab.state(claimed) == "queued"
    assert lab.runs("ticks") == []
    assert lab.go(worker.pull(2)), "offers go on"
    repaired()
    lab.settle()
    assert len(lab.runs("ticks")) == 1, "its occurrence stayed due"


def bad(lab, *tasks):
    """Damage the stored trigger of each task."""
    for task in tasks:
        lab.store.tamper(
            "UPDATE triggers SET spec = ? WHERE task_id = (SELECT task_id FROM tasks WHERE name = ?)",
            b'{"id":"cron","kind":"cron","expr":"* * * * *","zone":"No/Where"}',
            task,
        )


@pytest.mark.parametrize("damaged", [1, 2, 16, 20])
def test_a_bad_trigger_stops_only_itself(lab, damaged):
    names = [f"bad-{number:02}" for number in range(damaged)]
    tasks = [spec(name, overlap=Overlap("allow"), triggers=(cron("* * * * *"),)) for name in [*names, "good"]]
    lab.publish(*tasks)
    bad(lab, *names)
    for minute in range(1, 4):
        lab.clock.advance(MINUTE)
        lab.settle()
        assert len(lab.runs("good")) == minute
    lab.publish(*tasks, spec("another"))
    assert lab.runs("another") == []
    assert lab.plane.control.door.is_open
    assert [run for name in names for run in lab.runs(name)] == []


def test_a_bad_trigger_can_be_edited_away(lab):
    lab.publish(spec("bad", triggers=(cron("* * * * *"),)), spec("gone", triggers=(cron("* * * * *"),)))
    bad(lab, "bad", "gone")
    lab.clock.advance(MINUTE)
    lab.publish(spec("bad", triggers=(cron("*/2 * * * *"),)))
    assert lab.skipped() == {"superseded": 2}
    lab.clock.advance(2 * MINUTE)
    lab.settle()
    assert len(lab.runs("bad")) == 1


def test_an_idle_cycle_costs_one_read_and_no_transaction(lab):
    lab.publish(spec(triggers=(cron("0 0 1 1 *"),)))
    lab.cycle()
    ledger, commits = lab.store.ledger, lab.store.writer.commits
    reads, transactions = ledger.reads, ledger.transactions
    assert lab.cycle()[0] is False
    assert ledger.reads - reads == 1
    assert ledger.transactions == transactions
    assert lab.store.writer.commits == commits


def test_a_full_page_asks_for_a_follow_up_until_everything_is_done(lab):
    lab.publish(spec("many", overlap=Overlap("allow")))
    worker = lab.worker(max_runs=100)
    lab.cycle()
    ids = [lab.run("many") for _ in range(40)]
    while lab.go(worker.pull(8)):
        pass
    lab.clock.advance(LEASE_MS)
    again, _ = lab.cycle()
    assert again
    assert [lab.state(run_id) for run_id in ids].count("queued") == 16
    lab.settle()
    assert {lab.state(run_id) for run_id in ids} == {"queued"}
