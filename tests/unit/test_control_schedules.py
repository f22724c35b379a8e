"""Occurrences end to end: each admits at most one Run or leaves a row, over restarts, gaps and edits (I6, I9)."""

from __future__ import annotations

from collections import Counter

import pytest

from qinglong.domain.definitions import FileSet, Missed, Overlap, TriggerSpec
from qinglong.errors import Conflict
from qinglong.limits import HOUR, MINUTE, SECOND
from support.builders import cron, every, queue, spec
from support.clock import T0
from support.lab import Lab

ALLOW = Overlap("allow")
BOOT = TriggerSpec("boot", "boot")


@pytest.fixture
def lab(tmp_path):
    made = Lab(tmp_path)
    yield made
    made.close()


def test_case_14_many_tasks_in_the_same_minute_over_restarts_make_one_run_per_task_and_tick(lab):
    tasks = [spec(f"task-{n:02}", overlap=ALLOW, triggers=(cron("* * * * *"),)) for n in range(40)]
    lab.publish(*tasks)
    for minute in range(30):
        lab.tick()
        lab.sleep(20 * SECOND)
        if minute % 3 == 0:
            lab.restart()  # between two ticks
            lab.publish(*tasks)
            lab.tick()
        lab.sleep(40 * SECOND - (minute % 5 == 0))
        lab.restart()  # at the tick, or just before it
        if minute % 2:
            lab.publish(*tasks)
        lab.clock.advance(minute % 5 == 0)
    lab.tick()
    lab.sleep(0)
    made = Counter(lab.store.rows("SELECT task, scheduled_ms FROM runs"))
    assert set(made.values()) == {1}
    ticks = range(T0 + MINUTE, T0 + 31 * MINUTE, MINUTE)
    assert made.keys() == {(task.name, tick) for task in tasks for tick in ticks}


@pytest.mark.parametrize(
    ("missed", "runs"),
    [(Missed("skip"), 0), (Missed("latest"), 1), (Missed("all", 50), 50), (Missed("all", 1_000), 180)],
)
def test_case_46_after_three_hours_the_missed_policy_says_what_runs(lab, missed, runs):
    of = spec(overlap=ALLOW, triggers=(cron("* * * * *", missed=missed),))
    lab.publish(of)
    lab.tick()
    lab.sleep(MINUTE)
    lab.crash()
    lab.clock.advance(3 * HOUR + 30 * SECOND)
    before, on_time = 1, 1  # the newest tick is 30 s late, and so not missed
    lab.start()
    lab.publish(of)
    lab.tick()
    lab.sleep(0)
    caught_up = len(lab.runs()) - before
    assert caught_up == max(runs, on_time)
    assert sum(lab.skipped().values()) == 180 - caught_up
    lab.sleep(5 * MINUTE)
    assert len(lab.runs()) == before + caught_up + 5, "then it goes on as ever"


@pytest.mark.parametrize(
    ("missed", "runs"), [(Missed("skip"), 0), (Missed("latest"), 1), (Missed("all", 2), 2)]
)
def test_case_46_ticks_that_are_all_late_are_missed(lab, missed, runs):
    of = spec(overlap=ALLOW, triggers=(cron("*/10 * * * *", missed=missed),))
    lab.publish(of)
    lab.crash()
    lab.clock.advance(3 * HOUR + 5 * MINUTE)  # 21:12, the newest tick was at 21:10
    lab.start()
    lab.settle()
    assert len(lab.runs()) == runs
    assert lab.skipped() == {"missed": 19 - runs}
    newest = [run.scheduled_ms for run in lab.runs()]
    assert newest == [T0 + 3 * HOUR + 3 * MINUTE - back * 10 * MINUTE for back in reversed(range(runs))]


def test_case_46_a_year_of_missed_seconds_stops_no_schedule(lab):
    lab.publish(spec(overlap=ALLOW, triggers=(cron("* * * * * *"),)))
    lab.crash()
    lab.clock.advance(365 * 24 * HOUR)
    lab.start()
    lab.settle()
    assert len(lab.runs()) == 1
    assert lab.skipped() == {"missed": 365 * 24 * 3600 - 1}
    lab.tick()
    lab.sleep(3 * SECOND)
    assert len(lab.runs()) == 4


def test_case_43_a_schedule_moved_into_the_past_does_not_fire_back(tmp_path):
    lab = Lab(tmp_path, wall_ms=T0 - T0 % (24 * HOUR) + 8 * HOUR + 30 * MINUTE)
    lab.publish(spec(triggers=(cron("0 9 * * *"),)))
    lab.tick()
    lab.sleep(SECOND)
    lab.publish(spec(triggers=(cron("0 8 * * *"),)))
    lab.sleep(23 * HOUR)
    assert lab.runs() == []
    lab.sleep(HOUR)
    assert [run.scheduled_ms % (24 * HOUR) for run in lab.runs()] == [8 * HOUR]
    assert lab.skipped() == {}
    lab.close()


def test_an_edit_settles_what_was_due_and_starts_strictly_after(lab):
    lab.publish(spec(overlap=ALLOW, triggers=(every(MINUTE),)))
    lab.cycle()
    lab.clock.advance(MINUTE)
    lab.publish(spec(overlap=ALLOW, notes="edited", triggers=(every(MINUTE),)))
    assert [(run.revision, run.scheduled_ms) for run in lab.runs()] == [(1, T0 + MINUTE)]
    lab.settle()
    assert len(lab.runs()) == 1
    lab.clock.advance(MINUTE)
    lab.settle()
    assert [(run.revision, run.scheduled_ms) for run in lab.runs()][1:] == [(2, T0 + 2 * MINUTE)]


def test_case_48_a_tick_behind_a_blocked_loop_fires_and_says_how_late(lab):
    lab.publish(spec(triggers=(every(MINUTE),)))
    lab.cycle()
    lab.clock.advance(MINUTE + 5 * SECOND)
    lab.settle()
    (run,) = lab.runs()
    assert run.scheduled_ms == T0 + MINUTE
    assert lab.told(run.run_id, "admitted")[0].data["late_ms"] == 5 * SECOND


def test_a_tick_that_is_hardly_late_carries_no_label(lab):
    lab.publish(spec(triggers=(every(MINUTE),)))
    lab.cycle()
    lab.clock.advance(MINUTE + 999)
    lab.settle()
    assert "late_ms" not in lab.told(lab.runs()[0].run_id, "admitted")[0].data


def test_case_49_every_skipped_tick_leaves_a_row_with_its_reason_and_a_count(lab):
    lab.publish(
        spec("skips", triggers=(every(MINUTE),)),
        spec("queues", overlap=queue(2), triggers=(every(MINUTE),)),
    )
    lab.tick()
    lab.sleep(10 * MINUTE)
    assert lab.skipped() == {"overlap": 9, "queue_full": 7}
    for view in lab.go(lab.store.queries.tasks("default")):
        (trigger,) = view.triggers
        occurrences = lab.go(lab.store.queries.occurrences(trigger.trigger_id, 100))
        assert sum(one.count for one in occurrences) == 10
        assert [one.run_id is None for one in occurrences] == [bool(one.reason) for one in occurrences]
        assert view.skipped == sum(one.count for one in occurrences if one.run_id is None)
        assert view.last.run_id == lab.runs(view.task.name)[-1].run_id


def test_case_50_boot_jobs_run_once_per_boot_of_the_machine_and_not_per_restart(lab):
    tasks = [spec(f"boot-{n}", overlap=ALLOW, triggers=(BOOT,)) for n in range(10)]
    lab.publish(*tasks, boot="one")
    for _ in range(2):
        lab.restart()
        lab.publish(*tasks, boot="one")
        lab.settle()
    assert Counter(run.task for run in lab.runs()) == {task.name: 1 for task in tasks}
    assert {run.cause for run in lab.runs()} == {"boot"}
    lab.restart()
    lab.publish(*tasks, boot="two")
    assert len(lab.runs()) == 20


def test_a_boot_job_that_is_added_later_runs_in_this_boot(lab):
    lab.publish(spec("old", triggers=(BOOT,)))
    lab.publish(spec("old", triggers=(BOOT,)), spec("new", triggers=(BOOT,)))
    assert [run.task for run in lab.runs()] == ["old", "new"]


def test_a_removed_task_fires_no_more_and_comes_back_without_firing_back(lab):
    of = spec(triggers=(every(MINUTE),), overlap=ALLOW)
    lab.publish(of)
    lab.tick()
    lab.sleep(2 * MINUTE)
    lab.publish()
    lab.sleep(10 * MINUTE)
    assert len(lab.runs()) == 2
    lab.publish(of)
    lab.sleep(2 * MINUTE)
    assert len(lab.runs()) == 4
    assert {run.revision for run in lab.runs()} == {1, 2}


def test_a_moment_named_once_fires_once(lab):
    of = spec(triggers=(TriggerSpec("at", "at", at_ms=T0 + MINUTE),))
    lab.publish(of)
    lab.tick()
    lab.sleep(2 * MINUTE)
    for _ in range(3):
        lab.restart()
        lab.publish(of)
        lab.tick()
        lab.sleep(HOUR)
    assert [run.scheduled_ms for run in lab.runs()] == [T0 + MINUTE]
    assert lab.skipped() == {}


def test_a_clash_of_names_changes_nothing_and_names_the_owner(lab):
    lab.publish(spec("mine"))
    files = FileSet(tasks=(spec("other"), spec("mine", notes="theirs")))
    with pytest.raises(Conflict, match="mine belongs to test"):
        lab.go(lab.plane.publisher.publish(files, "another", "boot"))
    assert [view.task.name for view in lab.go(lab.store.queries.tasks("default"))] == ["mine"]


def test_i9_skipped_occurrences_are_counted_by_reason(lab):
    lab.publish(spec("busy", triggers=(every(MINUTE),)))
    for _ in range(3):
        lab.clock.advance(MINUTE)
        lab.settle()
    counted = lab.plane.control.figures()["skipped.overlap"]
    stored = lab.go(lab.store.queries.task("default", "busy"))
    assert counted == stored.skipped == 2
