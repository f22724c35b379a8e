"""Occurrences: each is answered once, by a Run or by a row with its reason (I6, I9)."""

from __future__ import annotations

from itertools import count

import msgspec
from msgspec.structs import replace

from qinglong.domain.admission import promote
from qinglong.domain.definitions import Missed, Overlap, TriggerSpec
from qinglong.domain.occurring import advance, occur
from qinglong.domain.records import Occurrence, Trigger
from qinglong.limits import LATE_MS, MINUTE
from support.builders import cron, draft, every, queue, run_id, spec, task
from support.clock import T0

ENCODE = msgspec.json.Encoder(order="deterministic").encode


def due(of, now_ms=T0 + MINUTE, cursor_ms=T0, number=0):
    """A draft in which one trigger of the spec is due."""
    spec_of = of.triggers[number]
    trigger = Trigger("trigger-1", f"task-{of.name}", spec_of.id, ENCODE(spec_of), T0, cursor_ms, now_ms)
    found = draft(of, now_ms=now_ms)
    found.triggers[trigger.trigger_id] = trigger
    found.tasks[trigger.task_id] = (task(of), of)
    return found, trigger


def ids():
    numbers = count(1)
    return lambda: run_id(next(numbers))


def rows(found):
    return [record for record in found.puts if isinstance(record, Occurrence)]


def cursor(found):
    (trigger,) = [record for record in found.puts if isinstance(record, Trigger)]
    return trigger.cursor_ms, trigger.next_ms


def test_a_due_occurrence_becomes_one_run_and_one_row_and_the_cursor_moves():
    found, trigger = due(spec(triggers=(cron("* * * * *"),)))
    assert advance(found, trigger, ids()) is False
    (row,) = rows(found)
    assert (row.run_id, row.at_ms, row.key, row.reason) == (run_id(1), T0 + MINUTE, str(T0 + MINUTE), "")
    run = found.get(run_id(1)).run
    assert (run.trigger_id, run.occurrence, run.cause) == ("trigger-1", str(T0 + MINUTE), "cron")
    assert run.scheduled_ms == T0 + MINUTE
    assert cursor(found) == (T0 + MINUTE, T0 + 2 * MINUTE)


def test_the_same_occurrence_is_not_due_again_from_the_new_cursor():
    found, trigger = due(spec(triggers=(cron("* * * * *"),)))
    advance(found, trigger, ids())
    (moved,) = [record for record in found.puts if isinstance(record, Trigger)]
    again = draft(None, now_ms=found.now_ms)
    again.tasks = found.tasks
    advance(again, moved, ids())
    assert rows(again) == []


def test_i6_a_clock_that_steps_back_repeats_nothing():
    found, trigger = due(spec(triggers=(cron("* * * * *"),)))
    advance(found, trigger, ids())
    (moved,) = [record for record in found.puts if isinstance(record, Trigger)]
    for now in (T0 - 10**9, T0, T0 + MINUTE):
        again = draft(None, now_ms=now)
        again.tasks = found.tasks
        advance(again, moved, ids())
        assert rows(again) == []
        assert cursor(again)[0] >= moved.cursor_ms


def test_case_15_i9_an_occurrence_that_overlaps_leaves_a_row_with_its_reason():
    found, trigger = due(spec(triggers=(every(1_000, missed=Missed("all", 3)),)), T0 + 3_000)
    advance(found, trigger, ids())
    first, *others = rows(found)
    assert first.run_id
    assert [(row.run_id, row.reason, row.count) for row in others] == [(None, "overlap", 1)] * 2
    assert len(found.aggregates) == 1


def test_case_27_queue_admits_one_holds_its_size_and_skips_the_rest_with_a_reason():
    of = spec(overlap=queue(1), triggers=(every(1_000, missed=Missed("all", 5)),))
    found, trigger = due(of, T0 + 5_000)
    advance(found, trigger, ids())
    promote(found)
    assert [found.get(row.run_id).run.state for row in rows(found) if row.run_id] == ["queued", "created"]
    assert [row.reason for row in rows(found)] == ["", "", "queue_full", "queue_full", "queue_full"]


def test_case_46_missed_policies_admit_none_the_newest_or_the_newest_n():
    start, late = T0, T0 + 3 * 60 * MINUTE
    for missed, admitted in ((Missed("skip"), 0), (Missed("latest"), 1), (Missed("all", 50), 50)):
        of = spec(overlap=Overlap("allow"), triggers=(cron("* * * * *", missed=missed),))
        found, trigger = due(of, late + LATE_MS // 2, start)
        assert advance(found, trigger, ids()) is False
        runs = [row for row in rows(found) if row.run_id]
        skips = [row for row in rows(found) if not row.run_id]
        # the newest one is 30 s late only: on time, and due whatever the policy says
        assert len(runs) == max(admitted, 1)
        assert sum(row.count for row in skips) + len(runs) == 180
        assert {row.reason for row in skips} <= {"missed"}
        assert cursor(found)[1] == late + MINUTE


def test_case_48_an_occurrence_five_seconds_late_fires_and_says_so():
    found, trigger = due(spec(triggers=(cron("* * * * *", missed=Missed("skip")),)), T0 + MINUTE + 5_000)
    advance(found, trigger, ids())
    (row,) = rows(found)
    assert row.run_id
    assert found.events[0].data["late_ms"] == 5_000


def test_a_boot_occurrence_is_keyed_by_the_boot():
    found, trigger = due(spec(triggers=(TriggerSpec(id="b", kind="boot"),)))
    pinned, of = found.tasks[trigger.task_id]
    occur(found, trigger, pinned, of, "boot-id", found.now_ms, ids())
    (row,) = rows(found)
    assert (row.key, row.run_id) == ("boot-id", run_id(1))
    assert found.get(run_id(1)).run.cause == "boot"


def test_overlap_replace_ends_the_older_run_and_answers_the_occurrence_with_the_new_one():
    of = spec(overlap=Overlap("replace"), triggers=(every(1_000, missed=Missed("all", 2)),))
    found, trigger = due(of, T0 + 2_000)
    advance(found, trigger, ids())
    assert [found.get(row.run_id).run.state for row in rows(found)] == ["cancelled", "queued"]


def test_a_trigger_of_an_older_revision_admits_the_newest_revision():
    found, trigger = due(spec(triggers=(cron("* * * * *"),)))
    head, of = found.tasks[trigger.task_id]
    found.tasks[trigger.task_id] = (replace(head, revision=7), of)
    advance(found, trigger, ids())
    assert found.get(run_id(1)).run.revision == 7
