"""The cron engine against the cases that broke other schedulers, and against a slow, obvious oracle."""

from __future__ import annotations

import calendar
import itertools
import zoneinfo
from datetime import date

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cron_oracle import NEW_YORK, PLACES, PLANS, SHIFTY, Plan, changes, ms, offset
from qinglong import limits
from qinglong.domain import cron
from qinglong.domain.preview import preview
from qinglong.errors import Invalid

LAW = settings(deadline=None, derandomize=True, max_examples=50, database=None)
MANY = settings(LAW, max_examples=150)
ZONES = sorted(zoneinfo.available_timezones())


def walls(expr: str, zone: str, after: str, count: int) -> list[str]:
    return [row.local for row in preview(expr, zone, ms(after), count)]


def refusal(expr: str, zone: str = "UTC") -> Invalid:
    with pytest.raises(Invalid) as caught:
        cron.parse(expr, zone)
    return caught.value


# --- cases --------------------------------------------------------------------------------------------------


def test_case_31_a_time_inside_the_spring_gap_runs_once_at_its_end() -> None:
    assert walls("30 2 * * *", NEW_YORK, "2026-03-07T00:00-05:00", 3) == [
        "2026-03-07T02:30:00-05:00",
        "2026-03-08T03:00:00-04:00",
        "2026-03-09T02:30:00-04:00",
    ]


def test_case_32_a_time_inside_the_autumn_overlap_runs_once() -> None:
    assert walls("30 1 * * *", NEW_YORK, "2026-10-31T12:00-04:00", 2) == [
        "2026-11-01T01:30:00-04:00",
        "2026-11-02T01:30:00-05:00",
    ]


@pytest.mark.parametrize("change", ["2026-03-08T07:00", "2026-11-01T06:00"])
def test_case_32_a_step_schedule_runs_every_real_ten_minutes(change: str) -> None:
    start = ms(change) - 6 * limits.HOUR
    fires = list(itertools.islice(cron.parse("*/10 * * * *", NEW_YORK).fires(start), 72))
    assert fires == [start + k * 10 * limits.MINUTE for k in range(1, 73)]


def test_several_times_in_one_gap_make_one_run_also_with_seconds() -> None:
    for expr in ("15,45 2 * * *", "0 15,45 2 * * *", "45 2,3 * * *"):
        found = walls(expr, NEW_YORK, "2026-03-08T00:00-05:00", 1)
        assert found == ["2026-03-08T03:00:00-04:00"], expr
    assert walls("0 2,3 * * *", NEW_YORK, "2026-03-08T00:00-05:00", 2)[1].startswith("2026-03-09T02:00")


def test_a_star_schedule_does_not_run_inside_a_gap_and_runs_in_both_passes() -> None:
    assert walls("*/30 2 * * *", NEW_YORK, "2026-03-08T00:00-05:00", 1) == ["2026-03-09T02:00:00-04:00"]
    assert walls("*/30 1 * * *", NEW_YORK, "2026-11-01T00:00-04:00", 5)[1:4] == [
        "2026-11-01T01:30:00-04:00",
        "2026-11-01T01:00:00-05:00",
        "2026-11-01T01:30:00-05:00",
    ]


def test_a_star_schedule_on_one_day_of_the_year_runs_in_the_second_pass_too() -> None:
    found = walls("*/10 1 1 11 *", NEW_YORK, "2026-11-01T01:55:00-04:00", 2)
    assert found == ["2026-11-01T01:00:00-05:00", "2026-11-01T01:10:00-05:00"]


def test_a_search_from_the_second_pass_does_not_repeat_a_fixed_time() -> None:
    for start in ("2026-11-01T01:00:00-05:00", "2026-11-01T01:15:00-05:00", "2026-11-01T01:30:00-05:00"):
        assert walls("30 1 * * *", NEW_YORK, start, 1) == ["2026-11-02T01:30:00-05:00"]
        assert walls("0 30 1 * * *", NEW_YORK, start, 1) == ["2026-11-02T01:30:00-05:00"]


def test_times_in_a_gap_and_at_its_end_count_as_one() -> None:
    schedule = cron.parse("0,30 2,3 * * *", NEW_YORK)
    assert schedule.count(ms("2026-03-08T05:00"), ms("2026-03-08T12:00")) == 2
    assert [text[11:16] for text in walls(schedule.expr, NEW_YORK, "2026-03-08T05:00", 2)] == [
        "03:00",
        "03:30",
    ]


def test_a_half_hour_change_loses_no_minute_of_the_next_hour() -> None:
    found = walls("*/10 3 * * *", "Australia/Lord_Howe", "2026-10-03T12:00:00+00:00", 3)
    assert [text[11:16] for text in found] == ["03:00", "03:10", "03:20"]


def test_a_calendar_day_that_was_left_out_has_no_run() -> None:
    found = walls("30 12 * * *", "Pacific/Apia", "2011-12-28T23:00:00-10:00", 2)
    assert found == ["2011-12-29T12:30:00-10:00", "2011-12-31T12:30:00+14:00"]


def test_case_33_a_fixed_time_fires_once_per_calendar_slot_in_every_zone_2024_to_2040() -> None:
    seen: set[tuple[object, ...]] = set()
    for name in ZONES:
        zone = zoneinfo.ZoneInfo(name)
        for change in changes(name, 2024, 2040):
            key = (change, offset(zone, change - 1), offset(zone, change))
            if key not in seen:
                _check_slots_around(name, change)
            seen.add(key)
    assert len(seen) > 200


def _check_slots_around(name: str, change: int) -> None:
    """Daily times before, inside and after the change: each date's slot fires exactly once, in order."""
    zone = zoneinfo.ZoneInfo(name)
    old, new = change + offset(zone, change - 1), change + offset(zone, change)
    for wall in {old - 60, (old + new) // 2, new}:
        time = wall % 86_400 // 60 * 60
        daily = cron.parse(f"{time // 60 % 60} {time // 3_600} * * *", name)
        fires = [fire // 1_000 for fire in itertools.islice(daily.fires((change - 40 * 3_600) * 1_000), 4)]
        slots = []
        for fire in fires:
            shown = fire + offset(zone, fire)
            if shown % 86_400 != time:
                assert fire == change, (name, change, time)
                shown = next(s for s in range(old, new) if s % 86_400 == time)
            slots.append(shown // 86_400)
        assert slots == list(range(slots[0], slots[0] + 4)), (name, change, time)
        assert fires == sorted(set(fires))


@pytest.mark.parametrize("name", ZONES[::60])
def test_case_33_seventeen_years_of_a_daily_time_have_one_fire_each_day(name: str) -> None:
    low, high = ms("2024-01-01"), ms("2041-01-01")
    fires = list(itertools.takewhile(lambda fire: fire <= high, cron.parse("30 1 * * *", name).fires(low)))
    assert all(a < b for a, b in itertools.pairwise(fires))
    days = (high - low) // limits.DAY
    assert abs(len(fires) - days) <= 1
    assert cron.parse("30 1 * * *", name).count(low, high) == len(fires)


def test_case_35_the_preview_across_the_overlap_shows_both_offsets() -> None:
    rows = preview("0 * * * *", NEW_YORK, ms("2026-11-01T04:30"), 3)
    assert [row.local for row in rows] == [
        "2026-11-01T01:00:00-04:00",
        "2026-11-01T01:00:00-05:00",
        "2026-11-01T02:00:00-05:00",
    ]
    assert [row.fire_ms for row in rows] == [ms(f"2026-11-01T0{hour}:00") for hour in (5, 6, 7)]


def test_the_preview_is_bounded() -> None:
    assert len(preview("* * * * *", "UTC", 0, 10**9)) == limits.LIST_CAP
    assert preview("* * * * *", "UTC", 0, -1) == []


def test_case_36_the_29th_of_february_after_2097_is_in_2104() -> None:
    assert walls("0 0 29 2 *", "UTC", "2097-01-01", 1) == ["2104-02-29T00:00:00+00:00"]
    # On a Sunday only: the longest wait of the calendar, across the year 2100.
    assert walls("0 0 29 2 */7", "UTC", "2088-03-01", 1) == ["2128-02-29T00:00:00+00:00"]


@pytest.mark.parametrize(
    ("expr", "zone"),
    [
        ("0 0 31 2 *", "UTC"),
        ("0 0 30 2 *", NEW_YORK),
        ("0 0 31 4,6,9,11 *", "UTC"),
        ("0 0 LW * */7", "UTC"),
        ("*/15 2 * 3 SUN#2", NEW_YORK),  # inside the gap of every year
    ],
)
def test_case_36_a_schedule_that_never_fires_is_refused(expr: str, zone: str) -> None:
    error = refusal(expr, zone)
    assert error.code == "cron_never_fires"
    assert "never fires" in error.message
    assert expr in error.message
    assert error.remedy


@pytest.mark.parametrize(
    ("expr", "words"),
    [
        ("0 0 13 * 5", "At 00:00 on the 13th day of the month or on Friday"),
        ("0 0 13 6 5", "At 00:00 in June, on the 13th day of the month or on Friday"),
        (
            "0 0 */10 * 1",
            "At 00:00 on the first, the 11th, the 21st, and the 31st day of the month if it's on Monday",
        ),
        ("0 0 */2 * *", "At 00:00 on every second day of the month"),
        ("0 0 1-31 * 5", "At 00:00 every day"),
        ("*/40 3 * * *", "At 03:00 and 03:40 every day"),
        ("*/10 * * * *", "Every 10th minute of every hour"),
        ("0 0 22 * *", "At 00:00 on the 22nd day of every month"),
        ("0 0 11,12,13 * *", "At 00:00 on the 11th, the 12th, and the 13th day of the month"),
        ("@daily", "At 00:00 every day"),
    ],
)
def test_case_38_the_words_say_what_the_schedule_does(expr: str, words: str) -> None:
    assert cron.describe(expr) == words


def test_case_38_two_day_fields_are_alternatives_unless_one_starts_with_a_star() -> None:
    either = walls("0 0 13 * 5", "UTC", "2026-10-01", 6)
    assert [text[8:10] for text in either] == ["02", "09", "13", "16", "23", "30"]
    both = walls("0 0 */10 * 1", "UTC", "2026-01-01", 3)
    assert [text[:10] for text in both] == ["2026-05-11", "2026-06-01", "2026-08-31"]


@pytest.mark.parametrize("zone", ["UTC", "Asia/Shanghai"])
def test_case_39_times_after_2038_are_plain_integers(zone: str) -> None:
    assert walls("0 0 20 1 *", zone, "2038-01-18", 1)[0].startswith("2038-01-20T00:00:00")
    assert cron.parse("0 0 20 1 *", "UTC").next_after(ms("2038-01-18")) == 2_147_558_400_000


def test_a_yearly_time_is_found_across_the_clock_changes_between() -> None:
    assert walls("0 0 1 7 *", NEW_YORK, "2026-01-01", 1) == ["2026-07-01T00:00:00-04:00"]
    assert walls("0 0 1 1 *", NEW_YORK, "2026-07-01", 1) == ["2027-01-01T00:00:00-05:00"]
    assert walls("*/30 0 1 7 *", NEW_YORK, "2026-01-01", 1) == ["2026-07-01T00:00:00-04:00"]


def test_case_40_both_0_and_7_are_sunday() -> None:
    for day in ("0", "7", "SUN", "sun"):
        assert walls(f"0 0 * * {day}", "UTC", "2026-12-01", 1) == ["2026-12-06T00:00:00+00:00"]
    assert cron.describe("0 0 * * 7") == cron.describe("0 0 * * 0") == "At 00:00 on Sunday"


def test_case_42_a_step_from_a_number_on_means_until_the_end_of_the_range() -> None:
    found = walls("0 1/4 * * *", "UTC", "2026-01-01", 7)
    assert [text[11:13] for text in found] == ["01", "05", "09", "13", "17", "21", "01"]
    assert cron.describe("0 1/4 * * *") == "At minute 0 past every fourth hour from 1 through 23"


@pytest.mark.parametrize(
    ("expr", "says", "remedy"),
    [
        ("0 0 * *", "has 4 fields", "minute hour day-of-month month day-of-week"),
        ("", "is empty", "5 fields"),
        ("0 0 1 1 * 2027 *", "has 7 fields", "5 fields"),
        ("60 * * * *", "bad minute field '60'", "0-59"),
        ("0 24 * * *", "bad hour field '24'", "0-23"),
        ("0 0 32 * *", "bad day-of-month field '32'", "1-31"),
        ("0 0 * foo *", "bad month field 'foo'", "JAN-DEC"),
        ("0 0 31 13 *", "bad month field '13'", "1-12"),
        ("0 0 * * 8", "bad day-of-week field '8'", "SUN-SAT"),
        ("x 0 0 * * *", "bad second field 'x'", "0-59"),
        ("0 22-6 * * *", "bad hour field '22-6'", "upwards"),
        ("*/0 * * * *", "bad minute field '*/0'", "0-59"),
        ("0 0 ? * 1", "bad day-of-month field '?'", "`*`"),
        ("@reboot", "is not a time", "boot: true"),
        ("@every 5m", "is not a cron schedule", "every: 15m"),
        ("@fortnightly", "is not a known macro", "@daily"),
        ("CRON_TZ=UTC 0 0 * * *", "names a time zone", "timezone:"),
        ("9" * 5_000 + " * * * *", "at most 1000 characters", "5 fields"),
        ("0 0 ١ * *", "is not plain text", "5 fields"),
    ],
)
def test_case_42_a_bad_schedule_gets_a_clear_answer(expr: str, says: str, remedy: str) -> None:
    error = refusal(expr)
    assert error.code == "cron_invalid"
    assert says in error.message
    assert remedy in error.remedy
    with pytest.raises(Invalid):
        cron.describe(expr)


@pytest.mark.parametrize(
    ("macro", "expr"),
    [
        ("@hourly", "0 * * * *"),
        ("@daily", "0 0 * * *"),
        ("@midnight", "0 0 * * *"),
        ("@weekly", "0 0 * * 0"),
        ("@monthly", "0 0 1 * *"),
        ("@yearly", "0 0 1 1 *"),
        (" @Annually ", "0 0 1 1 *"),
    ],
)
def test_a_macro_means_its_five_fields(macro: str, expr: str) -> None:
    assert walls(macro, NEW_YORK, "2026-01-01", 5) == walls(expr, NEW_YORK, "2026-01-01", 5)


@pytest.mark.parametrize(
    "zone", ["EST5EDT", "Asia/Calcutta", "UTC", "Etc/GMT+5", "America/Argentina/Ushuaia"]
)
def test_case_45_a_zone_keeps_the_name_it_was_given(zone: str) -> None:
    assert cron.parse("0 9 * * *", zone).zone == zone


@pytest.mark.parametrize(
    "zone",
    [
        "Foo/Bar",
        "../etc/passwd",
        "/etc/passwd",
        "",
        ".",
        "America",
        "America/",
        "europe/berlin",
        "zone.tab",
        "right/UTC",
        "a\0b",
        "x" * 5_000,
        "Ünzone",
        "UTC ",
    ],
)
def test_case_45_anything_but_an_iana_name_is_refused(zone: str) -> None:
    assert refusal("0 9 * * *", zone).code == "zone_unknown"


def test_a_fire_is_strictly_after_the_given_millisecond() -> None:
    minutely = cron.parse("* * * * *", "UTC")
    assert minutely.next_after(59_999) == 60_000
    assert minutely.next_after(60_000) == 120_000
    assert minutely.next_after(60_001) == 120_000
    assert minutely.next_after(-(10**18)) == 0
    assert minutely.next_after(10**18) is None


# --- laws ---------------------------------------------------------------------------------------------------


@LAW
@given(st.text(alphabet="0123456789*/-,#LWlw ?@\tSUNMOdec", max_size=24), st.integers(0, ms("2150-01-01")))
def test_case_42_fuzz_any_text_is_accepted_and_fires_or_is_refused_with_a_code(text: str, after: int) -> None:
    _accepted_fires_or_refused(text, after)


@LAW
@given(
    st.lists(st.text(alphabet="0123456789*/-,#LW", min_size=1, max_size=5), min_size=5, max_size=6),
    st.integers(0, ms("2150-01-01")),
)
def test_case_42_fuzz_any_five_or_six_words(words: list[str], after: int) -> None:
    _accepted_fires_or_refused(" ".join(words), after)


def _accepted_fires_or_refused(text: str, after: int) -> None:
    try:
        schedule = cron.parse(text, "Europe/Berlin")
    except Invalid as error:
        assert error.code in {"cron_invalid", "cron_never_fires"}
        assert error.remedy
        return
    fire = schedule.next_after(after)
    assert fire is not None
    assert fire > after
    assert cron.describe(text)


@LAW
@given(PLANS, st.integers(0, ms("2150-01-01")))
def test_case_42_a_well_formed_schedule_is_accepted_exactly_if_a_date_matches(plan: Plan, after: int) -> None:
    days = (date(year, month, 1) for year in range(2000, 2028) for month in sorted(plan.month.values))
    matches = any(
        plan.on(first.replace(day=day))
        for first in days
        for day in range(1, calendar.monthrange(first.year, first.month)[1] + 1)
    )
    if not matches:
        assert refusal(plan.text).code == "cron_never_fires"
        return
    assert (cron.parse(plan.text, "UTC").next_after(after) or 0) > after
    assert cron.describe(plan.text)


@MANY
@given(PLACES)
def test_fires_near_a_change_are_those_of_the_oracle(place: tuple[Plan, str, int, int]) -> None:
    plan, name, _, low = place
    schedule, high = cron.parse(plan.text, name), low + 26 * 3_600
    expected = plan.fires(zoneinfo.ZoneInfo(name), low, high)
    fires = [fire // 1_000 for fire in itertools.islice(schedule.fires(low * 1_000 - 1), len(expected) + 1)]
    assert fires[: len(expected)] == expected
    assert fires[len(expected)] >= high
    assert all(a < b for a, b in itertools.pairwise(fires))
    assert schedule.count(low * 1_000 - 1, high * 1_000 - 1) == len(expected)
    assert schedule.newest(low * 1_000 - 1, high * 1_000 - 1, 3) == tuple(f * 1_000 for f in expected[-3:])


@LAW
@given(PLANS, st.sampled_from(SHIFTY), st.integers(ms("2001-01-01") // 1_000, ms("2040-01-01") // 1_000))
def test_fires_of_any_schedule_in_a_random_month_are_those_of_the_oracle(
    plan: Plan, name: str, low: int
) -> None:
    try:
        schedule = cron.parse(plan.text, name)
    except Invalid:
        return
    zone, high = zoneinfo.ZoneInfo(name), low + 31 * 86_400
    expected = plan.fires(zone, low, high)
    assert schedule.count(low * 1_000 - 1, high * 1_000 - 1) == len(expected)
    tail = tuple(fire * 1_000 for fire in expected[-20:])
    assert schedule.newest(low * 1_000 - 1, high * 1_000 - 1, 20) == tail
    first = schedule.next_after(low * 1_000 - 1)
    assert first is not None
    assert (first // 1_000 == expected[0]) if expected else (first // 1_000 >= high)


@MANY
@given(PLACES, st.lists(st.integers(0, 30 * limits.HOUR), max_size=8))
def test_a_search_from_any_instant_continues_the_same_sequence(
    place: tuple[Plan, str, int, int], steps: list[int]
) -> None:
    plan, name, change, low = place
    schedule, start = cron.parse(plan.text, name), low * 1_000
    sequence = list(itertools.takewhile(lambda fire: fire < start + 31 * limits.HOUR, schedule.fires(start)))
    sequence.append(schedule.next_after(sequence[-1] if sequence else start) or 0)
    edges = [fire + delta for fire in (*sequence[:40:5], change * 1_000) for delta in (-1, 0, 1)]
    for instant in [start + step for step in steps] + [edge for edge in edges if edge >= start]:
        later = [fire for fire in sequence if fire > instant]
        if later:
            assert schedule.next_after(instant) == later[0]
            assert schedule.count(start, instant) == len(sequence) - len(later)


def test_the_newest_fires_are_found_without_walking_through_a_burst(monkeypatch: pytest.MonkeyPatch) -> None:
    walked = []
    real = cron.Cron.next_after
    monkeypatch.setattr(cron.Cron, "next_after", lambda self, at: walked.append(at) or real(self, at))
    schedule = cron.parse("* * 3 * * *", NEW_YORK)
    newest = schedule.newest(0, ms("2026-05-01T17:00"), 3)
    assert newest == tuple(ms(f"2026-05-01T07:59:5{second}") for second in (7, 8, 9))
    assert len(walked) <= 8


def test_a_count_over_decades_of_a_secondly_schedule_takes_no_walk() -> None:
    schedule = cron.parse("* * * * * *", NEW_YORK)
    assert schedule.count(-1, ms("2026-01-01") - 1) == ms("2026-01-01") // 1_000
    assert schedule.newest(-1, ms("2026-01-01"), 2) == (ms("2026-01-01") - 1_000, ms("2026-01-01"))
