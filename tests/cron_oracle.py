"""A slow, obvious reading of crontab(5) and of the rule for changing clocks, and schedules to try it on.

Nothing here uses cronsim or the engine: each generated schedule knows its values from its making, and its fires
are found by trying every wall time.
"""

from __future__ import annotations

import calendar
import functools
import itertools
import random
import zoneinfo
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta

from hypothesis import strategies as st

NEW_YORK = "America/New_York"
SHIFTY = (
    NEW_YORK,
    "Europe/Berlin",
    "Australia/Lord_Howe",  # half an hour
    "Africa/Cairo",  # a gap at midnight
    "America/Havana",  # midnight comes twice
    "America/St_Johns",  # until 2011 a fold that begins a minute past midnight
    "America/Scoresbysund",  # a gap until midnight
    "Africa/Casablanca",  # summer time is off during Ramadan
    "Africa/Monrovia",  # 1972: a gap of 44 minutes and 30 seconds
    "Pacific/Apia",  # 2011: a calendar day was left out
    "Asia/Pyongyang",
    "UTC",
)


def ms(text: str) -> int:
    """UTC milliseconds of an ISO moment; without an offset it is UTC."""
    moment = datetime.fromisoformat(text)
    return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()) * 1_000


@dataclass(frozen=True)
class Part:
    """One field: its text, its plain values, and what only days have (``L``, ``LW``, ``(day, nth)``)."""

    text: str
    values: frozenset[int]
    special: frozenset[object] = frozenset()


@dataclass(frozen=True)
class Plan:
    """A generated schedule with its meaning known from its making."""

    second: Part
    minute: Part
    hour: Part
    day: Part
    month: Part
    weekday: Part
    six: bool

    @property
    def text(self) -> str:
        fields = [self.minute, self.hour, self.day, self.month, self.weekday]
        return " ".join(part.text for part in ([self.second, *fields] if self.six else fields))

    @property
    def fixed(self) -> bool:
        times = [self.second, self.minute, self.hour] if self.six else [self.minute, self.hour]
        return not any(part.text.startswith("*") for part in times)

    @functools.cached_property
    def times(self) -> list[int]:
        seconds = self.second.values if self.six else {0}
        product = itertools.product(self.hour.values, self.minute.values, seconds)
        return sorted(h * 3_600 + m * 60 + s for h, m, s in product)

    def on(self, day: date) -> bool:
        if day.month not in self.month.values:
            return False
        last = calendar.monthrange(day.year, day.month)[1]
        workdays = [d for d in range(last - 2, last + 1) if date(day.year, day.month, d).weekday() < 5]
        first = day.day in self.day.values
        first |= "L" in self.day.special and day.day == last
        first |= "LW" in self.day.special and day.day == max(workdays, default=0)
        number = day.isoweekday() % 7
        second = number in {value % 7 for value in self.weekday.values}
        nth = (day.day - 1) // 7 + 1
        second |= (number, nth) in self.weekday.special
        second |= (number, "L") in self.weekday.special and day.day > last - 7
        both = self.day.text.startswith("*") or self.weekday.text.startswith("*")
        return (first and second) if both else (first or second)

    def fires(self, zone: zoneinfo.ZoneInfo, low: int, high: int) -> list[int]:
        """Every fire in [low, high), by trying each wall time that matches."""
        found = set()
        day = datetime.fromtimestamp(low - 2 * 86_400, UTC).date()
        while (start := calendar.timegm(day.timetuple())) < high + 2 * 86_400:
            for time in self.times if self.on(day) else ():
                found |= self._instants(zone, start + time)
            day += timedelta(days=1)
        return sorted(fire for fire in found if low <= fire < high)

    def _instants(self, zone: zoneinfo.ZoneInfo, wall: int) -> set[int]:
        naive = datetime.fromtimestamp(wall, UTC).replace(tzinfo=zone)
        first, second = (wall - seconds(naive.replace(fold=fold)) for fold in (0, 1))
        real = [u for u in (first, second) if u + offset(zone, u) == wall]
        if not self.fixed:
            return set(real)
        if real:
            return {min(real)}
        return {change_between(zone, second, first)} if first - second <= 3 * 3_600 else set()


def listed(values: list[int]) -> Part:
    return Part(",".join(map(str, values)), frozenset(values))


def starred(step: int, values: range) -> Part:
    return Part(f"*/{step}" if step > 1 else "*", frozenset(values[::step]))


def seconds(moment: datetime) -> int:
    return int(moment.utcoffset().total_seconds())


def offset(zone: zoneinfo.ZoneInfo, instant: int) -> int:
    return seconds(datetime.fromtimestamp(instant, zone))


@functools.cache
def change_between(zone: zoneinfo.ZoneInfo, low: int, high: int) -> int:
    before = offset(zone, low)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if offset(zone, middle) == before else (low, middle)
    return high


@functools.cache
def changes(name: str, first_year: int, last_year: int) -> list[int]:
    zone, step = zoneinfo.ZoneInfo(name), 5 * 86_400
    low, high = ms(f"{first_year}-01-01") // 1_000, ms(f"{last_year + 1}-01-01") // 1_000
    offsets = [(at, offset(zone, at)) for at in range(low, high, step)]
    return [change_between(zone, a, b) for (a, x), (b, y) in itertools.pairwise(offsets) if x != y]


def _terms(low: int, high: int) -> st.SearchStrategy[Part]:
    value = st.integers(low, high)
    step = st.integers(1, high + 5)
    span = st.tuples(value, value).map(sorted)
    return st.one_of(
        value.map(lambda v: Part(f"{v}", frozenset({v}))),
        st.just(Part("*", frozenset(range(low, high + 1)))),
        step.map(lambda n: Part(f"*/{n}", frozenset(range(low, high + 1, n)))),
        span.map(lambda s: Part(f"{s[0]}-{s[1]}", frozenset(range(s[0], s[1] + 1)))),
        st.tuples(value, step).map(lambda t: Part(f"{t[0]}/{t[1]}", frozenset(range(t[0], high + 1, t[1])))),
        st.tuples(span.filter(lambda s: s[0] < s[1]), step).map(
            lambda t: Part(f"{t[0][0]}-{t[0][1]}/{t[1]}", frozenset(range(t[0][0], t[0][1] + 1, t[1])))
        ),
    )


def _lists(terms: st.SearchStrategy[Part]) -> st.SearchStrategy[Part]:
    return st.lists(terms, min_size=1, max_size=3).map(
        lambda parts: Part(
            ",".join(p.text for p in parts),
            frozenset().union(*(p.values for p in parts)),
            frozenset().union(*(p.special for p in parts)),
        )
    )


_STAR_DAY = Part("*", frozenset(range(1, 32)))
_STAR_MONTH = Part("*", frozenset(range(1, 13)))
_STAR_WEEKDAY = Part("*", frozenset(range(8)))
_SPECIAL_DAYS = st.sampled_from(["L", "LW"]).map(lambda t: Part(t, frozenset(), frozenset({t})))
_SPECIAL_WEEKDAYS = st.one_of(
    st.tuples(st.integers(0, 7), st.integers(1, 5)).map(
        lambda t: Part(f"{t[0]}#{t[1]}", frozenset(), frozenset({(t[0] % 7, t[1])}))
    ),
    st.integers(0, 7).map(lambda d: Part(f"{d}L", frozenset(), frozenset({(d % 7, "L")}))),
)
DAYS = st.one_of(st.just(_STAR_DAY), _lists(st.one_of(_terms(1, 31), _SPECIAL_DAYS)))
WEEKDAYS = st.one_of(st.just(_STAR_WEEKDAY), _lists(st.one_of(_terms(0, 7), _SPECIAL_WEEKDAYS)))
SECONDS = st.one_of(_terms(0, 59).filter(lambda p: len(p.values) < 4), st.just(Part("0", frozenset({0}))))
PLANS = st.builds(
    Plan,
    second=SECONDS,
    minute=_lists(_terms(0, 59)),
    hour=_lists(_terms(0, 23)),
    day=DAYS,
    month=st.one_of(st.just(_STAR_MONTH), _lists(_terms(1, 12))),
    weekday=WEEKDAYS,
    six=st.booleans(),
)


def place(seed: int) -> tuple[Plan, str, int, int]:
    """A schedule with times near a change of some zone's clocks; the zone, the change, a start near it.

    Evenly random, unlike what Hypothesis draws by itself: the interesting combinations are rare.
    """
    rng = random.Random(seed)
    name = rng.choice(SHIFTY)
    change = rng.choice(changes(name, 1971, 2040) or [ms("2026-03-01") // 1_000])
    wall = datetime.fromtimestamp(change + offset(zoneinfo.ZoneInfo(name), change - 1), UTC)
    hours = [(wall.hour + rng.randint(-2, 2)) % 24 for _ in range(rng.randint(1, 3))]
    minutes = [rng.choice([0, 1, 15, 30, 44, 59]) for _ in range(rng.randint(1, 3))]
    # On the date of the change only: then the next match is a year away, or more.
    rare = rng.random() < 0.5
    plan = Plan(
        second=rng.choice([listed([0]), listed([7, 43]), starred(20, range(60))]),
        minute=rng.choice([listed(minutes), listed(minutes), starred(7, range(60)), starred(1, range(60))]),
        hour=rng.choice([listed(hours), listed(hours), starred(1, range(24)), starred(3, range(24))]),
        day=listed([wall.day]) if rare else _STAR_DAY,
        month=listed([wall.month]) if rare else _STAR_MONTH,
        weekday=_STAR_WEEKDAY,
        six=rng.random() < 0.5,
    )
    return (
        plan,
        name,
        change,
        change + rng.choice([rng.randint(-30 * 3_600, 3 * 3_600), rng.randint(-3_600, 3_600)]),
    )


PLACES = st.integers(0, 2**32).map(place)
