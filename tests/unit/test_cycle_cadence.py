"""The cadence: one timer, one cycle at a time, each occurrence at its moment (D4, design section 8)."""

from __future__ import annotations

import asyncio

import pytest

from qinglong.control.cadence import Cadence
from qinglong.domain.definitions import Overlap, TriggerSpec
from qinglong.limits import HOUR, LEASE_MS, MINUTE, SECOND
from support.builders import cron, every, retry, spec
from support.lab import Lab

ALLOW = Overlap("allow")


@pytest.fixture
def lab(tmp_path):
    made = Lab(tmp_path)
    yield made
    made.close()


class StubCycle:
    """Counts how many run at once, and does ``during`` in the middle."""

    def __init__(self):
        self.passes = self.inside = 0
        self.during = self.answer = None

    async def run(self):
        self.inside += 1
        assert self.inside == 1, "two cycles at once"
        self.passes += 1
        await asyncio.sleep(1)
        if self.during is not None:
            self.during()
        self.inside -= 1
        return self.answer(self.passes) if self.answer else (False, None)


def stub(lab):
    cycle = StubCycle()
    return cycle, Cadence(cycle, lab.clock)


def during(lab, cadence, ms, work=lambda: None):
    """Run a cadence for a while; ``work`` happens at its start."""

    async def main():
        running = asyncio.create_task(cadence.run())
        await asyncio.sleep(0)
        work()
        await asyncio.sleep(ms / 1000)
        cadence.stop()
        await running

    lab.go(main())


def test_the_first_cycle_comes_at_once_and_then_nothing_without_a_reason(lab):
    cycle, cadence = stub(lab)
    during(lab, cadence, HOUR)
    assert cycle.passes == cadence.cycles == 1


def test_requests_during_a_cycle_become_one_follow_up(lab):
    cycle, cadence = stub(lab)
    asked = []

    def ask():
        if not asked:
            asked.extend(range(10))
            for _ in asked:
                cadence.request()

    cycle.during = ask
    during(lab, cadence, MINUTE)
    assert cycle.passes == 2


def test_a_cycle_that_asks_for_a_follow_up_gets_it_at_once(lab):
    cycle, cadence = stub(lab)
    cycle.answer = lambda passes: (passes < 5, None)
    during(lab, cadence, 5 * SECOND)
    assert cycle.passes == 5


def test_what_becomes_due_during_a_cycle_is_not_forgotten(lab):
    cycle, cadence = stub(lab)
    moments = []

    def hint():
        if cycle.passes == 1:
            cadence.due_at(lab.clock.wall + 7 * SECOND)
        moments.append(lab.clock.wall)

    cycle.during = hint
    during(lab, cadence, MINUTE)
    assert [later - moments[0] for later in moments] == [0, 8 * SECOND]


def test_an_earlier_moment_moves_the_timer_and_a_later_one_does_not(lab):
    cycle, cadence = stub(lab)
    start = lab.clock.wall
    moments = []
    cycle.during = lambda: moments.append(lab.clock.wall - SECOND - start)

    def hints():
        cadence.due_at(start + 20 * SECOND)
        cadence.due_at(start + 10 * SECOND)
        cadence.due_at(start + 15 * SECOND)

    during(lab, cadence, MINUTE, hints)
    assert moments == [0, 10 * SECOND]


def test_d4_there_is_exactly_one_timer(lab):
    lab.publish(*(spec(f"task-{n}", triggers=(every(MINUTE + n),), overlap=ALLOW) for n in range(30)))
    lab.tick()
    for _ in range(20):
        lab.sleep(7 * SECOND)
        assert len(timers(lab)) == 1


def timers(lab):
    async def look():
        return [handle for handle in asyncio.get_running_loop()._scheduled if not handle.cancelled()]

    return lab.go(look())


def test_nothing_due_means_no_read_until_the_next_moment(lab):
    lab.publish(spec(triggers=(every(HOUR),)))
    lab.tick()
    lab.sleep(5 * MINUTE)
    ledger, cycles = lab.store.ledger, lab.plane.control.cadence.cycles
    reads, transactions = ledger.reads, ledger.transactions
    lab.sleep(50 * MINUTE)
    assert ledger.reads == reads
    assert ledger.transactions == transactions
    assert lab.plane.control.cadence.cycles == cycles
    lab.sleep(6 * MINUTE)
    assert len(lab.runs()) == 1


def test_two_triggers_a_few_ms_apart_each_fire_at_their_moment(lab):
    now = lab.clock.wall
    at = [now + MINUTE + offset for offset in (0, 3, 7, 500, 1_001)]
    lab.publish(
        *(spec(f"task-{n}", triggers=(TriggerSpec("at", "at", at_ms=moment),)) for n, moment in enumerate(at))
    )
    lab.tick()
    lab.sleep(2 * MINUTE)
    runs = lab.runs()
    assert [(run.scheduled_ms, run.created_ms - run.scheduled_ms) for run in runs] == [
        (moment, 0) for moment in at
    ]


def test_a_burst_of_triggers_larger_than_many_pages_fires_within_its_moment(lab):
    lab.publish(*(spec(f"task-{n:03}", triggers=(cron("* * * * *"),)) for n in range(100)))
    lab.tick()
    lab.sleep(MINUTE)
    assert len(lab.runs()) == 100
    assert {run.created_ms - run.scheduled_ms for run in lab.runs()} == {0}


def test_a_retry_comes_at_its_moment_and_costs_nothing_before(lab):
    lab.publish(spec(retry=retry(initial_ms=90_000, factor=1.0)))
    worker = lab.worker()
    lab.tick()
    lab.sleep(SECOND)
    run_id = lab.run()
    lab.go(worker.pull())
    lab.go(worker.work(run_id, 1))
    due = lab.view(run_id).run.available_ms
    reads, transactions = lab.store.ledger.reads, lab.store.ledger.transactions
    lab.sleep(due - lab.clock.wall - 1)
    assert lab.state(run_id) == "retry_wait"
    assert lab.store.ledger.transactions == transactions
    assert lab.store.ledger.reads - reads <= 1, "one look, at the end of the lease that was"
    lab.sleep(1)
    assert lab.state(run_id) == "queued"


def test_case_11_a_claim_whose_worker_vanished_is_decided_at_the_end_of_its_lease(lab):
    lab.publish(spec())
    worker = lab.worker()
    lab.tick()
    lab.sleep(SECOND)
    run_id = lab.run()
    lab.go(worker.pull())
    lab.sleep(LEASE_MS)
    assert lab.state(run_id) == "queued"
    assert lab.told(run_id, "returned")[0].at_ms == lab.view(run_id).attempts[0].created_ms + LEASE_MS


def test_an_unreachable_run_is_looked_at_less_and_less_often(lab):
    lab.publish(spec())
    worker = lab.worker()
    lab.tick()
    lab.sleep(SECOND)
    run_id = lab.run()
    lab.go(worker.pull())
    lab.go(worker.begin(run_id))
    lab.sleep(HOUR)
    before = lab.plane.control.cadence.cycles
    lab.sleep(HOUR)
    assert lab.plane.control.cadence.cycles - before < 30
    assert lab.state(run_id) == "running"
    assert len(lab.told(run_id, "unreachable")) == 1


def test_a_pull_that_waits_gets_work_the_moment_it_is_there(lab):
    lab.publish(spec(triggers=(every(MINUTE),)))
    worker = lab.worker()
    lab.tick()
    lab.sleep(0)

    async def main():
        started = lab.clock.wall
        offers = await worker.pull(wait_ms=10 * MINUTE)
        return lab.clock.wall - started, offers

    waited, offers = lab.go(main())
    assert waited == MINUTE
    assert offers == [lab.runs()[0].run_id]


def test_a_redelivery_that_waited_is_offered_at_its_moment(lab):
    lab.publish(spec())
    worker = lab.worker()
    lab.tick()
    lab.sleep(SECOND)
    run_id = lab.run()
    lab.go(worker.pull())
    lab.go(worker.say("returned", run_id, reason="declined"))
    due = lab.view(run_id).run.available_ms
    assert due > lab.clock.wall
    assert lab.go(worker.pull(wait_ms=MINUTE)) == [run_id]
    assert lab.clock.wall == due


def test_a_stop_reaches_a_worker_that_waits(lab):
    lab.publish(spec())
    worker = lab.worker()
    lab.tick()
    lab.sleep(SECOND)
    run_id = lab.run()
    lab.go(worker.pull())
    lab.go(worker.begin(run_id))

    async def main():
        waiting = asyncio.create_task(worker.sync(wait_ms=10 * MINUTE))
        await asyncio.sleep(5)
        await lab.plane.control.cancel(run_id, by="tester")
        asked = lab.clock.wall
        reply = await waiting
        return lab.clock.wall - asked, [found.run_id for found in reply.directives]

    assert lab.go(main()) == (0, [run_id])


def test_a_failing_cycle_is_tried_again_each_second_and_no_faster(lab, monkeypatch):
    lab.publish(spec())
    lab.tick()
    lab.sleep(SECOND)

    async def fail(*_):
        raise RuntimeError("as if")

    monkeypatch.setattr(lab.plane.control.cycle.retry, "step", fail)
    lab.store.tamper("INSERT INTO due (run_id, due_ms) VALUES ('x', 0)")
    lab.plane.control.cadence.request()
    cycles = lab.plane.control.cadence.cycles
    lab.sleep(MINUTE)
    assert 58 <= lab.plane.control.cadence.cycles - cycles <= 62


@pytest.mark.parametrize("hours", [-3, 3])
def test_a_wall_clock_that_steps_neither_stops_nor_repeats_a_schedule(lab, hours):
    lab.publish(spec(triggers=(cron("* * * * *"),), overlap=ALLOW))
    lab.tick()
    lab.sleep(5 * MINUTE)
    assert len(lab.runs()) == 5
    lab.clock.step(hours * HOUR)
    lab.sleep(10 * MINUTE)
    scheduled = [run.scheduled_ms for run in lab.runs()]
    assert len(scheduled) == len(set(scheduled)), "I6"
    if hours > 0:
        assert len(scheduled) == 16, "the newest of what was jumped over is on time"
        assert lab.skipped() == {"missed": hours * 60 - 1}
        return
    assert len(scheduled) == 5, "what was settled is not fired again"
    lab.sleep(-hours * HOUR)
    assert len(lab.runs()) == 15
