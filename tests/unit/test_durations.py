"""Durations as people write them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qinglong.domain.durations import format_ms, parse
from qinglong.errors import Invalid
from qinglong.limits import DAY, DURATION_MS, HOUR, MINUTE, SECOND


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1ms", 1),
        ("500ms", 500),
        ("10s", 10 * SECOND),
        ("5m", 5 * MINUTE),
        ("2h", 2 * HOUR),
        ("1d", DAY),
        ("1w", 7 * DAY),
        ("1h30m", 90 * MINUTE),
        ("1w2d3h4m5s6ms", 9 * DAY + 3 * HOUR + 4 * MINUTE + 5 * SECOND + 6),
        ("90s", 90 * SECOND),
        ("1m500ms", MINUTE + 500),
        ("007s", 7 * SECOND),
        ("3660d", DURATION_MS),
    ],
)
def test_what_is_written_is_what_is_meant(text, expected):
    assert parse(text) == expected


@pytest.mark.parametrize(
    ("text", "code", "remedy"),
    [
        ("30", "duration_without_unit", "30s"),
        ("0", "duration_without_unit", "0s"),
        ("0s", "duration_too_short", "1ms"),
        ("3661d", "duration_too_long", "3660d"),
        ("999999999999999w", "duration_too_long", "3660d"),
        ("1.5h", "duration_unreadable", "1h30m"),
        ("0.5s", "duration_unreadable", "500ms"),
        ("10 seconds", "duration_unreadable", "10s"),
        ("5 Min", "duration_unreadable", "5m"),
        ("1h 30m", "duration_unreadable", "1h30m"),
        ("10s\n", "duration_unreadable", "10s"),
        ("30m1h", "duration_unreadable", "largest first"),
        ("5m5m", "duration_unreadable", "largest first"),
        ("-5s", "duration_unreadable", "largest first"),
        ("", "duration_unreadable", "largest first"),
        ("h", "duration_unreadable", "largest first"),
        ("PT5M", "duration_unreadable", "largest first"),
        ("٣s", "duration_unreadable", "largest first"),
        ("1" * 5_000, "duration_unreadable", "largest first"),
    ],
)
def test_a_refusal_says_what_to_write(text, code, remedy):
    with pytest.raises(Invalid) as caught:
        parse(text)
    assert caught.value.code == code
    assert remedy in caught.value.remedy
    assert len(str(caught.value)) < 250


def test_the_bounds_of_a_field_are_named():
    assert parse("1s", least_ms=SECOND) == SECOND
    assert parse("1h", most_ms=HOUR) == HOUR
    with pytest.raises(Invalid, match="the least is 1s"):
        parse("999ms", least_ms=SECOND)
    with pytest.raises(Invalid, match="the most is 1h"):
        parse("61m", most_ms=HOUR)


@pytest.mark.parametrize(
    ("duration_ms", "expected"),
    [(0, "0s"), (1, "1ms"), (90_000, "1m30s"), (14 * DAY, "14d"), (-5_000, "-5s"), (DAY + 1, "1d1ms")],
)
def test_durations_are_shown_in_the_same_words(duration_ms, expected):
    assert format_ms(duration_ms) == expected


@given(st.integers(1, DURATION_MS))
def test_law_what_is_shown_can_be_read_back(duration_ms):
    assert parse(format_ms(duration_ms)) == duration_ms


@given(st.text(max_size=80) | st.from_regex(r"[0-9wdhms. -]{0,70}", fullmatch=True))
def test_law_any_text_is_a_duration_within_bounds_or_refused(text):
    try:
        assert 1 <= parse(text) <= DURATION_MS
    except Invalid as error:
        assert error.remedy
