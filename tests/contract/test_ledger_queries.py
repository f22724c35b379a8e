"""Any ledger: reading for people. Lists without gaps or repeats, short ids, counts."""

from __future__ import annotations

import itertools

import pytest
from msgspec.structs import replace

from qinglong.domain import activation, ending, recovery
from qinglong.domain.definitions import Overlap
from qinglong.domain.records import Occurrence, Trigger
from qinglong.ledger.port import Keys, RunFilter
from qinglong.limits import HOUR, LIST_CAP
from support.builders import LEASE_MS, fence, queue, run_id, session, spec, task
from support.clock import T0
from support.stored import Bench

ALLOW = Overlap("allow")
ONE, TWO = spec("one", overlap=ALLOW), spec("two", overlap=ALLOW)


@pytest.fixture
def bench(store):
    made = Bench(store)
    made.define(ONE, TWO)
    yield made
    made.close()


def runs(bench, **where):
    return [run.run_id for run in bench.go(bench.queries.runs(RunFilter(**where)))]


@pytest.fixture
def mixed(bench):
    """24 Runs of two tasks in every state that one step reaches, by state."""
    by_state = {}
    steps = {
        "queued": lambda key, n: None,
        "dispatching": bench.claimed,
        "running": lambda key, n: (bench.claimed(key, n), bench.started(key), running(bench, key)),
        "succeeded": lambda key, n: bench.through(key, 0, n),
        "failed": lambda key, n: bench.through(key, 1, n),
        "cancelled": lambda key, n: bench.change(key, lambda f, now: ending.cancel(f, "", "", now)),
    }
    for number, (state, of) in enumerate(itertools.product(list(steps) * 2, (ONE, TWO)), 1):
        key = bench.admitted(number, of)
        steps[state](key, number)
        by_state[key] = (state, of.name)
    return by_state


def running(bench, key):
    bench.change(key, lambda found, now: activation.running(found, fence(found), now, LEASE_MS, {}))


FILTERS = [
    dict(zip(("task", "state"), pair, strict=True))
    for pair in itertools.product(
        ("", "one", "two", "none"),
        (
            "",
            "open",
            "created",
            "queued",
            "dispatching",
            "running",
            "succeeded",
            "failed",
            "cancelled",
            "lost",
        ),
    )
]


@pytest.mark.parametrize("where", FILTERS, ids=lambda where: "-".join(where.values()) or "all")
def test_a_list_shows_what_its_filter_says_newest_first(bench, mixed, where):
    def wanted(state, task):
        is_open = state in {"queued", "dispatching", "running"}
        fits = where["state"] in {"", state} or (where["state"] == "open" and is_open)
        return fits and where["task"] in {"", task}

    expected = sorted((key for key, found in mixed.items() if wanted(*found)), reverse=True)
    assert runs(bench, **where) == expected
    paged, before = [], ""
    while page := runs(bench, **where, before=before, limit=3):
        paged += page
        before = page[-1]
    assert paged == expected, "pages have no gaps and no repeats"


def test_pages_stay_whole_while_new_runs_arrive(bench):
    first = [bench.admitted(number, ONE) for number in range(1, 11)]
    paged = runs(bench, limit=4)
    for number in range(11, 16):
        bench.admitted(number, ONE)
    while page := runs(bench, limit=4, before=paged[-1]):
        paged += page
    assert paged == first[::-1]


def test_lists_are_bounded_and_kept_to_their_project(bench):
    other = spec("three", overlap=ALLOW)
    for number in range(1, 6):
        bench.admitted(number, ONE)
    assert runs(bench, project="other") == []
    assert len(runs(bench, limit=LIST_CAP * 10)) == 5
    assert runs(bench, task=other.name) == []


def test_since_is_a_moment_of_the_id(bench):
    stamp = int(run_id(1)[:8] + run_id(1)[9:13], 16)
    keys = [bench.admitted(number, ONE) for number in (1, 2)]
    assert runs(bench, since_ms=stamp) == keys[::-1]
    assert runs(bench, since_ms=stamp + 1) == []


def test_unreachable_runs_are_listed_and_counted_by_themselves(bench):
    silent, fine = bench.admitted(1, ONE), bench.admitted(2, TWO)
    for number, key in enumerate((silent, fine), 1):
        bench.claimed(key, number)
        bench.started(key)
    bench.clock.advance(LEASE_MS)
    bench.change(silent, lambda found, now: recovery.judge(found, None, now, 0.0))
    assert runs(bench, unreachable=True) == [silent]
    assert runs(bench, unreachable=True, task="two") == []
    counts = bench.go(bench.queries.counts())
    assert counts["unreachable"] == 1
    assert counts["oldest_unreachable_ms"] == T0 + LEASE_MS


def test_counts_are_those_of_open_runs_with_the_oldest_of_each(bench):
    bench.admitted(1, ONE)
    bench.clock.advance(HOUR)
    bench.admitted(2, ONE)
    bench.through(bench.admitted(3, ONE))
    counts = bench.go(bench.queries.counts())
    assert counts["runs.queued"] == 2
    assert counts["oldest_ms.queued"] == T0
    assert "runs.succeeded" not in counts


# One Run


def test_a_view_holds_everything_that_explains_a_run(bench):
    of = spec("three", overlap=queue(3))
    bench.define(of)
    first, held = bench.admitted(1, of), bench.admitted(2, of)
    made = bench.claimed(first)
    view = bench.go(bench.queries.run(first))
    assert (view.run, view.attempts, view.lease) == (made.run, (made.attempt,), made.lease)
    assert [event.kind for event in view.events] == ["admitted", "offered"]
    assert bench.go(bench.queries.run(held)).waits_for == (first,)
    assert bench.go(bench.queries.run(run_id(99))) is None


def test_events_come_after_a_version(bench):
    key = bench.admitted(1, ONE)
    bench.through(key)
    assert [e.version for e in bench.go(bench.queries.events(key, 0))] == [1, 2, 3, 4]
    assert [e.version for e in bench.go(bench.queries.events(key, 2))] == [3, 4]
    assert bench.go(bench.queries.events(key, 9)) == ()


def test_a_run_is_found_by_its_id_its_start_its_end_and_its_tasks_name(bench):
    key = bench.admitted(0xABCDE, ONE)
    newer = bench.admitted(0xF1234, ONE)

    def find(text):
        return bench.go(bench.queries.find_run(text))

    assert find(key) == find(key.upper()) == (key,)
    assert find("abcde") == find("0abcde") == (key,)
    assert find(key[:-2]) == (key,)
    assert find("one") == (newer,)
    assert find("two") == ()
    assert set(find(key[:13])) == {key, newer}, "ambiguous: as many as a person needs to see that"
    for nothing in ("", "cde", "zzzz", "ffff-ffff", "%", "*"):
        assert find(nothing) == ()


# Definitions


def test_tasks_show_their_newest_run_triggers_and_skips(bench):
    made = Trigger("trigger-1", task(ONE).task_id, "cron", b"{}", T0, T0, T0 + 5)
    bench.put(made)
    bench.put(Occurrence("trigger-1", "1", 1, 4, 4, None, "missed"))
    bench.put(Occurrence("trigger-1", "5", 5, 5, 1, run_id(), ""))
    bench.admitted(1, ONE)
    newest = bench.admitted(2, ONE)
    one, two = bench.go(bench.queries.tasks("default"))
    assert (one.task, one.triggers, one.last.run_id, one.skipped) == (task(ONE), (made,), newest, 4)
    assert (two.triggers, two.last, two.skipped) == ((), None, 0)
    assert bench.go(bench.queries.task("default", "one")) == one
    assert bench.go(bench.queries.task("other", "one")) is None
    bench.put(replace(task(ONE), removed_ms=T0))
    assert bench.go(bench.queries.task("default", "one")) is None
    assert [view.task.name for view in bench.go(bench.queries.tasks("default"))] == ["two"]


def test_occurrences_are_the_newest_of_one_trigger(bench):
    rows = [Occurrence("t", str(T0 + n), T0 + n, T0 + n, 1, None, "missed") for n in range(5)]
    bench.put(*rows, Occurrence("u", "1", 1, 1, 1, None, "missed"))
    assert bench.go(bench.queries.occurrences("t", 3)) == tuple(rows[:1:-1])


def test_sessions_are_listed_by_name(bench):
    for name in ("w2", "w1"):

        def put(draft, name=name):
            draft.session = session(name)

        bench.transact(Keys(worker=name), put)
    assert [found.worker for found in bench.go(bench.queries.sessions())] == ["w1", "w2"]
