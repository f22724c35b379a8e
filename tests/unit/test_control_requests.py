"""What people ask for: keys, overlaps, groups, removed tasks, deadlines, following a Run."""

from __future__ import annotations

import asyncio

import pytest

from qinglong.domain.definitions import Overlap
from qinglong.errors import Conflict, Invalid, NotFound, Refused
from qinglong.limits import HOUR, LEASE_MS, MINUTE, SECOND
from support.builders import every, queue, retry, spec
from support.lab import Lab

ALLOW, REPLACE = Overlap("allow"), Overlap("replace")


@pytest.fixture
def lab(tmp_path):
    made = Lab(tmp_path)
    made.cycle()
    yield made
    made.close()


def begun(lab, worker, task="backup"):
    run_id = lab.run(task)
    assert lab.go(worker.pull()) == [run_id]
    lab.go(worker.begin(run_id))
    return run_id


def cancel(lab, run_id):
    return lab.go(lab.plane.control.cancel(run_id, by="tester"))


# Keys


def test_i12_the_same_key_gives_the_same_run(lab):
    lab.publish(spec())
    first = lab.run(key="k")
    assert lab.run(key="k") == first, "although an overlap would refuse another"
    lab.go(lab.worker().pull())
    lab.restart()
    assert lab.run(key="k") == first
    cancel(lab, first)
    assert lab.run(key="k") == first, "also after its end"
    assert lab.run(key="l") != first
    assert len(lab.runs()) == 2


@pytest.mark.parametrize("other", [{"task": "other"}, {"allow_overlap": True}])
def test_the_same_key_for_another_request_is_a_conflict(lab, other):
    lab.publish(spec(), spec("other"))
    lab.run(key="k")
    with pytest.raises(Conflict) as caught:
        lab.run(key="k", **other)
    assert caught.value.code == "key_reused"
    assert len(lab.runs()) == 1


def test_one_key_from_many_at_once_makes_one_run(lab):
    lab.publish(spec(overlap=ALLOW))

    async def many():
        return await asyncio.gather(*(lab.plane.run("backup", key="k") for _ in range(20)))

    assert len(set(lab.go(many()))) == 1
    assert len(lab.runs()) == 1


def test_what_does_not_exist_is_named(lab):
    with pytest.raises(NotFound):
        lab.run("nothing")
    with pytest.raises(NotFound):
        lab.run("nothing", key="k")
    with pytest.raises(NotFound):
        cancel(lab, "nothing")
    with pytest.raises(NotFound):
        lab.go(lab.plane.control.find("nothing"))


def test_a_short_id_that_means_two_runs_is_invalid(lab):
    lab.publish(spec(overlap=ALLOW))
    one, two = lab.run(), lab.run()
    with pytest.raises(Invalid) as caught:
        lab.go(lab.plane.control.find(one[:8]))
    assert caught.value.code == "run_ambiguous"
    assert {lab.go(lab.plane.control.find(found)) for found in (one, two)} == {one, two}


# Overlap


def test_case_15_skip_refuses_by_hand_and_an_override_is_explicit(lab):
    lab.publish(spec(triggers=(every(MINUTE),)))
    worker = lab.worker()
    running = begun(lab, worker)
    with pytest.raises(Refused) as caught:
        lab.run()
    assert caught.value.code == "overlap"
    beside = lab.run(allow_overlap=True)
    assert lab.told(beside, "admitted")[0].data["override"] is True
    lab.clock.advance(MINUTE)
    lab.settle()
    assert lab.skipped() == {"overlap": 1}
    lab.go(worker.end(running))
    cancel(lab, beside)
    lab.clock.advance(MINUTE)
    lab.settle()
    assert lab.runs()[-1].cause == "every"


def test_queue_holds_runs_and_lets_them_go_one_by_one_in_their_order(lab):
    lab.publish(spec(overlap=queue(2)))
    worker = lab.worker()
    first = begun(lab, worker)
    waiting = [lab.run(), lab.run()]
    assert [lab.state(run_id) for run_id in waiting] == ["created", "created"]
    assert lab.view(waiting[0]).waits_for == (first,)
    with pytest.raises(Refused) as caught:
        lab.run()
    assert caught.value.code == "queue_full"
    assert lab.go(worker.pull(3)) == []
    for done, following in zip([first, *waiting], [*waiting, None], strict=True):
        lab.go(worker.end(done))
        assert lab.go(worker.pull(3)) == ([following] if following else [])
        if following:
            lab.go(worker.begin(following))


def test_replace_starts_the_new_run_only_when_the_end_of_the_old_one_is_a_fact(lab):
    lab.publish(spec(overlap=REPLACE))
    worker = lab.worker()
    old = begun(lab, worker)
    middle = lab.run()
    new = lab.run()
    assert [lab.state(run_id) for run_id in (old, middle, new)] == ["running", "cancelled", "created"]
    assert [found.run_id for found in lab.go(worker.sync()).directives] == [old]
    lab.clock.advance(HOUR)
    lab.settle()
    assert lab.state(new) == "created", "silence frees no place"
    lab.go(worker.end(old, 143, stopped_by="cancel"))
    assert lab.go(worker.pull()) == [new]
    assert lab.state(old) == "cancelled"


def test_an_unreachable_or_waiting_run_keeps_its_place(lab):
    lab.publish(spec(retry=retry(2, initial_ms=60_000)))
    worker = lab.worker()
    run_id = begun(lab, worker)
    lab.clock.advance(LEASE_MS + SECOND)
    lab.settle()
    assert lab.view(run_id).run.unreachable_ms is not None
    with pytest.raises(Refused):
        lab.run()
    lab.go(worker.end(run_id, 1))
    assert lab.state(run_id) == "retry_wait"
    with pytest.raises(Refused):
        lab.run()


# Groups


def test_a_group_lets_so_many_through_and_the_oldest_first(lab):
    lab.publish(
        *(spec(name, overlap=ALLOW, concurrency="disk") for name in ("one", "two")),
        concurrency_groups={"disk": 2},
    )
    worker = lab.worker(max_runs=9)
    ids = [lab.run(name) for name in ("one", "two", "one", "two", "one")]
    order = []
    while offered := lab.go(worker.pull(4)):
        order += offered
        assert len(worker.held) <= 2
        for run_id in offered[:1]:
            lab.go(worker.work(run_id))
            del worker.held[run_id]
        for run_id in list(worker.held):
            lab.go(worker.work(run_id))
            del worker.held[run_id]
    assert order == ids


def test_a_group_made_wider_by_an_edit_lets_more_through(lab):
    tasks = [spec(overlap=ALLOW, concurrency="disk")]
    lab.publish(*tasks)
    ids = [lab.run() for _ in range(5)]
    assert [lab.state(run_id) for run_id in ids] == ["queued", *["created"] * 4]
    lab.publish(*tasks, concurrency_groups={"disk": 3})
    lab.settle()
    assert [lab.state(run_id) for run_id in ids] == [*["queued"] * 3, *["created"] * 2]


def test_an_override_passes_its_tasks_overlap_and_never_a_group(lab):
    lab.publish(spec(concurrency="disk"))
    first = lab.run()
    second = lab.run(allow_overlap=True)
    assert (lab.state(first), lab.state(second)) == ("queued", "created")
    assert lab.view(second).run.held_by == "concurrency"


# The end of definitions


def test_case_27_removing_a_task_cancels_its_waiting_runs_and_no_running_one(lab):
    lab.publish(spec("gone", overlap=queue(5)), spec("stays", overlap=ALLOW))
    worker = lab.worker()
    running = begun(lab, worker, "gone")
    waiting = [lab.run("gone") for _ in range(3)]
    other = lab.run("stays")
    lab.publish(spec("stays", overlap=ALLOW))
    assert [lab.state(run_id) for run_id in waiting] == ["cancelled"] * 3
    assert {lab.view(run_id).run.reason for run_id in waiting} == {"its task was removed"}
    assert (lab.state(running), lab.state(other)) == ("running", "queued")
    lab.go(worker.end(running))
    assert lab.state(running) == "succeeded"
    with pytest.raises(NotFound):
        lab.run("gone")


def test_more_waiting_runs_of_removed_tasks_than_one_page_are_all_cancelled(lab):
    lab.publish(spec(overlap=ALLOW))
    ids = [lab.run() for _ in range(150)]
    lab.publish()
    assert {lab.state(run_id) for run_id in ids} == {"cancelled"}


# Deadlines and following


def test_start_within_ends_what_never_began_and_nothing_that_did(lab):
    lab.publish(spec(overlap=ALLOW, start_within_ms=MINUTE, retry=retry(2, initial_ms=2 * MINUTE)))
    worker = lab.worker()
    tried = begun(lab, worker)
    waits = lab.run()
    lab.go(worker.end(tried, 1))
    lab.clock.advance(3 * MINUTE)
    lab.settle()
    assert (lab.state(waits), lab.view(waits).run.reason) == ("timed_out", "start_within")
    assert lab.go(worker.pull()) == [tried], "it has begun before"


def test_who_follows_a_run_hears_of_its_next_event_at_once(lab):
    lab.publish(spec())
    worker = lab.worker()
    run_id = begun(lab, worker)
    control, version = lab.plane.control, lab.view(run_id).run.version

    async def main():
        following = asyncio.create_task(control.changed(run_id, version, 10 * MINUTE))
        await asyncio.sleep(5)
        await worker.end(run_id)
        ended = lab.clock.wall
        return await following, lab.clock.wall - ended

    assert lab.go(main()) == (version + 1, 0)
    assert lab.go(control.changed(run_id, version + 1, 1_000)) == version + 1
    assert control.wakes._followers == {}
