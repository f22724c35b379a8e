"""Publishing: a source changes what is its own, all of it or nothing, and no schedule fires back."""

from __future__ import annotations

from itertools import count

from msgspec.structs import replace

from qinglong.domain import definitions
from qinglong.domain.change import Draft
from qinglong.domain.definitions import FileSet, Missed
from qinglong.domain.publishing import publish, trigger_spec
from qinglong.domain.records import Limit, Occurrence, Removed, RevisionRow, Task, Trigger
from qinglong.limits import MINUTE
from support.builders import cron, every, spec
from support.clock import T0


class Shelf:
    """Stored definitions, changed as a ledger would."""

    def __init__(self):
        self.tasks, self.triggers, self.revisions, self.limits = {}, {}, {}, {}
        self.skipped = []
        self.numbers = count(1)

    def put(self, *specs, source="a", now_ms=T0, groups=None):
        draft = Draft(now_ms, {}, {})
        draft.tasks = {
            head.task_id: (head, definitions.decode(self.revisions[head.task_id, head.revision]))
            for head in self.tasks.values()
        }
        draft.triggers = dict(self.triggers)
        files = FileSet(tasks=specs, concurrency_groups=groups or {})
        done = publish(draft, files, source, lambda: f"id-{next(self.numbers):03}")
        for record in draft.puts:
            match record:
                case Task():
                    self.tasks[record.task_id] = record
                case RevisionRow():
                    assert (record.task_id, record.revision) not in self.revisions, "revisions are immutable"
                    self.revisions[record.task_id, record.revision] = record.spec
                case Trigger():
                    self.triggers[record.trigger_id] = record
                case Removed():
                    del self.triggers[record.trigger_id]
                case Limit():
                    self.limits[record.key] = record.capacity
                case Occurrence():
                    self.skipped.append(record)
        return done

    def task(self, name):
        return next(head for head in self.tasks.values() if head.name == name)

    def trigger(self, name="cron"):
        return next(found for found in self.triggers.values() if found.name == name)


def test_new_tasks_get_a_head_a_revision_and_their_triggers():
    shelf = Shelf()
    done = shelf.put(spec("x", triggers=(cron("0 9 * * *"), every(60_000))), groups={"db": 2})
    assert (done.added, done.changed, done.removed, done.unchanged) == (("x",), (), (), 0)
    assert shelf.task("x").revision == 1
    assert {found.name for found in shelf.triggers.values()} == {"cron", "every"}
    assert shelf.limits == {"group:default:db": 2}
    assert all(found.cursor_ms == found.anchor_ms == T0 < found.next_ms for found in shelf.triggers.values())


def test_publishing_the_same_again_changes_nothing():
    shelf = Shelf()
    shelf.put(spec("x", triggers=(cron("0 9 * * *"),)))
    before = (dict(shelf.tasks), dict(shelf.triggers), dict(shelf.revisions))
    done = shelf.put(spec("x", triggers=(cron("0 9 * * *"),)), now_ms=T0 + MINUTE)
    assert done.unchanged == 1
    assert (shelf.tasks, shelf.triggers, shelf.revisions) == before


def test_an_edit_is_a_new_revision_and_the_old_one_stays():
    shelf = Shelf()
    shelf.put(spec("x"))
    done = shelf.put(spec("x", notes="new"))
    assert done.changed == ("x",)
    head = shelf.task("x")
    assert head.revision == 2
    assert definitions.decode(shelf.revisions[head.task_id, 1]).notes == ""
    assert definitions.decode(shelf.revisions[head.task_id, 2]).notes == "new"


def test_case_43_an_earlier_time_of_day_does_not_fire_back():
    nine = T0 - T0 % (24 * 60 * MINUTE) + 24 * 60 * MINUTE + 9 * 60 * MINUTE
    shelf = Shelf()
    shelf.put(spec("x", triggers=(cron("0 9 * * *"),)), now_ms=nine - 24 * 60 * MINUTE)
    shelf.put(spec("x", triggers=(cron("0 8 * * *"),)), now_ms=nine - 30 * MINUTE)
    trigger = shelf.trigger()
    assert trigger.cursor_ms == nine - 30 * MINUTE
    assert trigger.next_ms == nine + 23 * 60 * MINUTE
    assert shelf.skipped == []


def test_an_edit_of_something_else_keeps_the_schedule_where_it_was():
    shelf = Shelf()
    shelf.put(spec("x", triggers=(cron("0 9 * * *"),)))
    before = shelf.trigger()
    shelf.put(spec("x", notes="new", triggers=(cron("0 9 * * *"),)), now_ms=T0 + 5)
    assert shelf.trigger() == before


def test_a_trigger_keeps_its_identity_through_edits_and_its_anchor_unless_the_interval_changes():
    shelf = Shelf()
    shelf.put(spec("x", triggers=(every(60_000),)))
    first = shelf.trigger("every")
    shelf.put(spec("x", triggers=(every(60_000, missed=Missed("skip")),)), now_ms=T0 + 70_000)
    second = shelf.trigger("every")
    assert (second.trigger_id, second.anchor_ms) == (first.trigger_id, T0)
    assert second.next_ms == T0 + 120_000
    shelf.put(spec("x", triggers=(every(30_000),)), now_ms=T0 + 71_000)
    third = shelf.trigger("every")
    assert (third.trigger_id, third.anchor_ms, third.next_ms) == (first.trigger_id, T0 + 71_000, T0 + 101_000)
    assert trigger_spec(third).every_ms == 30_000


def test_i9_what_an_edit_supersedes_leaves_a_row_with_its_count():
    shelf = Shelf()
    shelf.put(spec("x", triggers=(every(60_000),)))
    shelf.put(spec("x", triggers=(every(30_000),)), now_ms=T0 + 185_000)
    (row,) = shelf.skipped
    assert (row.reason, row.count, row.at_ms, row.last_ms) == ("superseded", 3, T0 + 60_000, T0 + 180_000)


def test_i9_what_a_removal_supersedes_leaves_a_row():
    for specs in ((), (spec("x"),)):
        shelf = Shelf()
        shelf.put(spec("x", triggers=(every(60_000),)))
        shelf.put(*specs, now_ms=T0 + 60_000)
        (row,) = shelf.skipped
        assert (row.reason, row.count) == ("superseded", 1)
        assert shelf.triggers == {}


def test_a_source_removes_only_what_is_its_own():
    shelf = Shelf()
    shelf.put(spec("x", triggers=(every(60_000),)), source="a")
    shelf.put(spec("y", triggers=(every(60_000),)), source="b")
    done = shelf.put(source="a", now_ms=T0 + 5)
    assert done.removed == ("x",)
    assert shelf.task("x").removed_ms == T0 + 5
    assert shelf.task("y").removed_ms is None
    assert len(shelf.triggers) == 1


def test_a_clash_of_names_changes_nothing_at_all():
    shelf = Shelf()
    shelf.put(spec("x"), source="a")
    before = dict(shelf.tasks)
    done = shelf.put(spec("new"), spec("x", notes="mine"), source="b", groups={"db": 1})
    assert done.clashes == (("x", "a"),)
    assert (done.added, shelf.tasks, shelf.limits) == ((), before, {})


def test_a_removed_name_may_be_taken_up_by_anybody_and_goes_on_counting():
    shelf = Shelf()
    shelf.put(spec("x", triggers=(every(60_000),)), source="a")
    shelf.put(source="a")
    done = shelf.put(spec("x", triggers=(every(60_000),)), source="b", now_ms=T0 + 5)
    assert done.added == ("x",)
    head = shelf.task("x")
    assert (head.source, head.revision, head.removed_ms) == ("b", 2, None)
    assert shelf.trigger("every").anchor_ms == T0 + 5


def test_trigger_ids_are_unique_within_a_task_not_across_tasks():
    shelf = Shelf()
    shelf.put(spec("x", triggers=(every(60_000),)), spec("y", triggers=(every(90_000),)))
    assert len(shelf.triggers) == 2


def test_a_boot_trigger_and_a_passed_moment_have_no_next():
    shelf = Shelf()
    at = replace(every(0, "at"), kind="at", at_ms=T0 - 5)
    boot = replace(every(0, "boot"), kind="boot")
    shelf.put(spec("x", triggers=(at, boot)))
    assert [found.next_ms for found in shelf.triggers.values()] == [None, None]
    assert shelf.put(spec("x", notes="n", triggers=(boot,))).changed == ("x",)
    assert shelf.skipped == [], "a moment before the first publication was never owed"


def test_what_was_done_is_counted_once_each():
    shelf = Shelf()
    shelf.put(spec("a"), spec("b"), spec("c"), spec("d"))
    done = shelf.put(spec("a"), spec("b", notes="new"), spec("c"), spec("e"))
    assert (done.added, done.changed, done.removed, done.unchanged) == (("e",), ("b",), ("d",), 2)
