"""Settling passed occurrences: what is due, what is skipped with a row, and where the cursor stands."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from qinglong.domain import cron, schedule
from qinglong.domain.definitions import Missed, TriggerSpec
from qinglong.domain.schedule import REACH_MS, Settlement, Skip, first_after, late_ms, settle, supersede
from qinglong.errors import Damaged
from qinglong.limits import DAY, HOUR, LATE_MS, MINUTE, MISSED_ALL, SECOND

LAW = settings(deadline=None, derandomize=True, max_examples=150, database=None)
SKIP, LATEST = Missed("skip"), Missed("latest")
MISSED = st.one_of(st.just(SKIP), st.just(LATEST), st.integers(1, 60).map(lambda n: Missed("all", n)))


def ms(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()) * 1_000


NOON = ms("2026-05-01T12:00")


def by_cron(expr: str, missed: Missed = LATEST, zone: str = "UTC") -> TriggerSpec:
    return TriggerSpec("t", "cron", expr=expr, zone=zone, missed=missed)


def every(interval: int, missed: Missed = LATEST) -> TriggerSpec:
    return TriggerSpec("t", "every", every_ms=interval, missed=missed)


def once(at: int, missed: Missed = LATEST) -> TriggerSpec:
    return TriggerSpec("t", "at", at_ms=at, missed=missed)


def run_to(trigger: TriggerSpec, cursor: int, until: int, step: int, anchor: int = 0) -> list[int]:
    """The occurrences that a scheduler with a timer of ``step`` admits."""
    admitted: list[int] = []
    for now in range(cursor + step, until + 1, step):
        settlement = settle(trigger, cursor, now, anchor)
        admitted.extend(settlement.due)
        cursor = settlement.cursor_ms
    return admitted


# --- when triggers fire -------------------------------------------------------------------------------------


def test_every_counts_from_the_anchor_and_starts_one_interval_after_it() -> None:
    trigger = every(15 * MINUTE)
    assert first_after(trigger, NOON, NOON) == NOON + 15 * MINUTE
    assert first_after(trigger, NOON - DAY, NOON) == NOON + 15 * MINUTE
    assert first_after(trigger, NOON + 15 * MINUTE - 1, NOON) == NOON + 15 * MINUTE
    assert first_after(trigger, NOON + 15 * MINUTE, NOON) == NOON + 30 * MINUTE


def test_at_fires_once_and_boot_has_no_time() -> None:
    assert first_after(once(NOON), NOON - 1, 0) == NOON
    assert first_after(once(NOON), NOON, 0) is None
    assert first_after(TriggerSpec("t", "boot"), NOON, 0) is None
    assert settle(TriggerSpec("t", "boot"), 0, NOON, 0) == Settlement((), (), NOON, None)


def test_a_stored_interval_below_the_bound_is_damage() -> None:
    with pytest.raises(Damaged):
        first_after(every(0), NOON, NOON)


def test_case_39_a_stored_time_after_2038_is_the_computed_one() -> None:
    after = ms("2038-01-18")
    computed = first_after(by_cron("0 0 20 1 *"), after, 0)
    assert computed == first_after(once(ms("2038-01-20")), after, 0) == 2_147_558_400_000


# --- normal operation ---------------------------------------------------------------------------------------


def test_case_14_a_timer_of_any_pace_admits_each_tick_once_also_across_restarts() -> None:
    for step in (7 * SECOND, 30 * SECOND, 59 * SECOND):
        admitted = run_to(by_cron("* * * * *", SKIP), NOON, NOON + 31 * MINUTE, step)
        assert admitted[:30] == [NOON + k * MINUTE for k in range(1, 31)]


@pytest.mark.parametrize("missed", [SKIP, LATEST, Missed("all", 50)])
def test_case_48_a_tick_five_seconds_late_fires_and_is_labelled_late(missed: Missed) -> None:
    now = NOON + 5 * SECOND
    settlement = settle(by_cron("0 12 * * *", missed), NOON - MINUTE, now, 0)
    assert settlement == Settlement((NOON,), (), now, NOON + DAY)
    assert late_ms(settlement.due[0], now) == 5 * SECOND
    assert late_ms(NOON, NOON - 1) == 0


def test_an_occurrence_exactly_at_now_is_due_and_at_the_bound_is_on_time() -> None:
    noon = by_cron("0 12 * * *", SKIP)
    assert settle(noon, NOON - 1, NOON, 0).due == (NOON,)
    assert settle(noon, NOON - 1, NOON + LATE_MS, 0).due == (NOON,)
    late = settle(noon, NOON - 1, NOON + LATE_MS + 1, 0)
    assert late.due == ()
    assert late.skips == (Skip(NOON, NOON, 1, "missed"),)


def test_nothing_passed_moves_the_cursor_only() -> None:
    settlement = settle(by_cron("0 12 * * *"), NOON, NOON + HOUR, 0)
    assert settlement == Settlement((), (), NOON + HOUR, NOON + DAY)


def test_a_clock_that_steps_back_makes_nothing_due_and_keeps_the_cursor() -> None:
    for trigger in (by_cron("* * * * *"), every(MINUTE)):
        settlement = settle(trigger, NOON, NOON - HOUR, 0)
        assert settlement == Settlement((), (), NOON, NOON + MINUTE)
        assert supersede(trigger, NOON, NOON - HOUR, 0).cursor_ms == NOON


# --- missed occurrences -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("missed", "runs"), [(SKIP, 0), (LATEST, 1), (Missed("all", 50), 50)])
@pytest.mark.parametrize("make", [lambda m: by_cron("* 0-11 * * *", m), lambda m: every(MINUTE, m)])
def test_case_46_three_hours_down_minutely_then_normal(make, missed: Missed, runs: int) -> None:
    down, anchor = ms("2026-05-01T09:00"), 0
    trigger = make(missed)
    if trigger.kind == "every":
        # A minutely tick is never later than a minute; one second after the bound none is on time.
        trigger = every(MINUTE + 2 * SECOND, missed)
        anchor = NOON - LATE_MS - SECOND - 10_000 * trigger.every_ms
        now = NOON
    else:
        now = NOON + MINUTE  # the last tick was 11:59
    settlement = settle(trigger, down, now, anchor)
    assert len(settlement.due) == runs
    passed = sum(skip.count for skip in settlement.skips) + runs
    assert passed > 170
    assert settlement.cursor_ms == now
    assert not settlement.more
    assert settlement.next_ms is not None
    following = settle(trigger, now, settlement.next_ms + SECOND, anchor)
    assert following.due == (settlement.next_ms,)
    assert following.skips == ()


def test_case_46_the_newest_tick_of_a_minutely_job_is_on_time_and_runs_under_every_policy() -> None:
    now = NOON + 30 * SECOND
    for missed, runs in ((SKIP, 1), (LATEST, 1), (Missed("all", 50), 50)):
        settlement = settle(by_cron("* * * * *", missed), now - 3 * HOUR, now, 0)
        assert settlement.due == tuple(NOON - k * MINUTE for k in reversed(range(runs)))
        first, last = now - 3 * HOUR + 30 * SECOND, NOON - runs * MINUTE
        assert settlement.skips == (Skip(first, last, 180 - runs, "missed"),)


def test_case_49_skipped_ticks_leave_one_row_with_bounds_count_and_reason() -> None:
    now = NOON + 5 * MINUTE
    skipped = settle(by_cron("0 * * * *", SKIP), NOON - 5 * HOUR, now, 0)
    assert skipped.skips == (Skip(NOON - 4 * HOUR, NOON, 5, "missed"),)
    latest = settle(by_cron("0 * * * *", LATEST), NOON - 5 * HOUR, now, 0)
    assert latest.due == (NOON,)
    assert latest.skips == (Skip(NOON - 4 * HOUR, NOON - HOUR, 4, "missed"),)


@pytest.mark.parametrize(
    "trigger", [by_cron("* * * * * *", Missed("all", 1_000)), every(SECOND, Missed("all", 1_000))]
)
def test_months_down_with_a_secondly_schedule_are_settled_in_one_call_without_a_walk(
    trigger: TriggerSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    searches = []
    real = cron.Cron.next_after
    monkeypatch.setattr(cron.Cron, "next_after", lambda self, at: searches.append(at) or real(self, at))
    cursor = ms("2025-11-01")
    settlement = settle(trigger, cursor, NOON, 0)
    assert settlement.due == tuple(NOON - k * SECOND for k in reversed(range(1_000)))
    count = (NOON - cursor) // SECOND - 1_000
    assert settlement.skips == (Skip(cursor + SECOND, NOON - 1_000 * SECOND, count, "missed"),)
    assert len(searches) < 2_100


def test_what_is_due_at_once_is_bounded() -> None:
    trigger = every(SECOND, Missed("all", 10**9))
    assert len(settle(trigger, 0, NOON, 0).due) == MISSED_ALL


@pytest.mark.parametrize("trigger", [by_cron("0 0 1 * *", LATEST), every(DAY, Missed("all", 3))])
def test_a_clock_centuries_ahead_is_settled_in_bounded_calls(trigger: TriggerSpec) -> None:
    cursor, now, calls, skipped, due = 0, ms("2426-06-10"), 0, 0, ()
    more = True
    while more:
        settlement = settle(trigger, cursor, now, 0)
        assert settlement.cursor_ms > cursor
        assert not (settlement.more and settlement.due)
        cursor, more, due = settlement.cursor_ms, settlement.more, settlement.due
        skipped += sum(skip.count for skip in settlement.skips)
        calls += 1
    assert cursor == now
    assert 4 <= calls <= 6
    assert due[-1] == (ms("2426-06-01") if trigger.kind == "cron" else now)
    total = 12 * 456 + 5 if trigger.kind == "cron" else now // DAY
    assert skipped + len(due) == total


def test_what_is_late_by_less_than_the_reach_is_kept_after_a_jump_of_the_clock() -> None:
    trigger, now = every(3_660 * DAY, Missed("all", 100)), REACH_MS + REACH_MS // 2
    first = settle(trigger, 0, now, 0)
    assert (first.due, first.more) == ((), True)
    assert sum(skip.count for skip in first.skips) == 5
    assert settle(trigger, first.cursor_ms, now, 0).due == tuple(k * 3_660 * DAY for k in range(6, 16))


def test_an_interval_whose_cursor_lies_before_its_anchor_counts_from_the_anchor() -> None:
    settlement = settle(every(HOUR, SKIP), NOON - DAY, NOON + 3 * HOUR + 2 * MINUTE, NOON)
    assert settlement.skips == (Skip(NOON + HOUR, NOON + 3 * HOUR, 3, "missed"),)


# --- edits --------------------------------------------------------------------------------------------------


def test_case_43_an_earlier_time_published_after_it_does_not_fire_back() -> None:
    published = ms("2026-05-01T08:30")
    old, new = by_cron("0 9 * * *"), by_cron("0 8 * * *")
    settlement = supersede(old, ms("2026-04-30T09:00"), published, 0)
    assert settlement.due == ()
    assert settlement.skips == ()
    assert settlement.next_ms is None
    assert settlement.cursor_ms == published
    assert first_after(new, settlement.cursor_ms, 0) == ms("2026-05-02T08:00")


def test_case_43_what_the_old_revision_owes_is_due_or_leaves_a_superseded_row() -> None:
    published = NOON + 10 * SECOND
    settlement = supersede(by_cron("0 * * * *"), NOON - 3 * HOUR, published, 0)
    assert settlement.due == (NOON,)
    assert settlement.skips == (Skip(NOON - 2 * HOUR, NOON - HOUR, 2, "superseded"),)
    same_time = first_after(by_cron("0 12 * * *"), settlement.cursor_ms, 0)
    assert same_time == NOON + DAY


def test_an_edit_settles_to_the_end_whatever_the_distance() -> None:
    settlement = supersede(every(DAY), 0, ms("2426-06-10"), 0)
    assert settlement.cursor_ms == ms("2426-06-10")
    assert sum(skip.count for skip in settlement.skips) + len(settlement.due) == ms("2426-06-10") // DAY


# --- laws ---------------------------------------------------------------------------------------------------

TRIGGERS = st.one_of(
    st.sampled_from(
        ["* * * * *", "*/7 * * * *", "30 1,2 * * *", "0 9 * * 1-5", "0 0 1 * *", "*/20 30 2 * * *"]
    ).flatmap(
        lambda expr: st.sampled_from(["UTC", "America/New_York", "Australia/Lord_Howe"]).map(
            lambda zone: by_cron(expr, zone=zone)
        )
    ),
    st.integers(SECOND, 3 * DAY).map(every),
    st.integers(NOON - 3 * DAY, NOON + 3 * DAY).map(once),
)


def with_policy(trigger: TriggerSpec, missed: Missed) -> TriggerSpec:
    return TriggerSpec(
        trigger.id, trigger.kind, trigger.expr, trigger.zone, trigger.every_ms, trigger.at_ms, missed
    )


@LAW
@given(
    TRIGGERS,
    MISSED,
    st.sampled_from([NOON, ms("2026-03-08T08:00"), ms("2026-11-01T08:00"), ms("2026-04-04T16:00")]),
    st.integers(0, 5 * HOUR),
    st.integers(0, 2 * HOUR),
)
def test_settling_agrees_with_a_walk_through_every_occurrence(
    trigger: TriggerSpec, missed: Missed, base: int, back: int, ago: int
) -> None:
    trigger, cursor, anchor = with_policy(trigger, missed), base - back, base - back - ago
    walk = itertools.takewhile(
        lambda at: at is not None and at <= base, _occurrences(trigger, cursor, anchor)
    )
    passed = list(walk)
    settlement = settle(trigger, cursor, base, anchor)
    keep = {"skip": 0, "latest": 1, "all": missed.limit}[missed.kind]
    if passed and base - passed[-1] <= LATE_MS:
        keep = max(keep, 1)
    dropped = passed[: max(len(passed) - keep, 0)]
    assert settlement.due == tuple(passed[len(dropped) :])
    rows = (Skip(dropped[0], dropped[-1], len(dropped), "missed"),) if dropped else ()
    assert settlement.skips == rows
    assert settlement.cursor_ms == base
    assert settlement.next_ms == first_after(trigger, base, anchor)


def _occurrences(trigger: TriggerSpec, after: int, anchor: int):
    while (at := schedule.first_after(trigger, after, anchor)) is not None:
        yield at
        after = at


@LAW
@given(TRIGGERS, MISSED, st.lists(st.integers(-HOUR, 30 * HOUR), min_size=1, max_size=12))
def test_every_occurrence_is_settled_exactly_once_whatever_the_clock_does(
    trigger: TriggerSpec, missed: Missed, steps: list[int]
) -> None:
    trigger = with_policy(trigger, missed)
    cursor = now = start = NOON - 2 * DAY
    due: list[int] = []
    skipped = 0
    for step in steps:
        now += step
        settlement = settle(trigger, cursor, now, start)
        assert settlement.cursor_ms == max(cursor, now)
        due.extend(settlement.due)
        skipped += sum(skip.count for skip in settlement.skips)
        cursor = settlement.cursor_ms
    assert due == sorted(set(due))
    if trigger.kind == "every":
        total = (cursor - start) // trigger.every_ms
    else:
        walk = itertools.takewhile(lambda at: at <= cursor, _occurrences(trigger, start, start))
        total = sum(1 for _ in walk)
    assert len(due) + skipped == total
