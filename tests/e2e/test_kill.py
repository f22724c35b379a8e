"""Kill -9 at random points: nothing acknowledged is lost, nothing runs twice. ``tests/soak`` does it for longer."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from support.chaos import crash_at_admission, crash_at_dispatch, weather
from support.server import IN_NAMESPACE, IS_ROOT, Server, diary, jobs

ROUNDS = 12


@pytest.mark.parametrize("seed", [20, 26])
def test_i1_i3_a_storm_of_kills_loses_nothing_and_runs_nothing_twice(
    seed: int, serve: Callable[..., Server]
) -> None:
    """Server, keepers and commands die at random points; then every Run ends, as its own diary says."""
    ended = weather(serve(), seed, ROUNDS)
    assert sum(ended.values()) >= ROUNDS


@pytest.mark.skipif(not IS_ROOT, reason="a pid namespace needs root here")
def test_i1_i3_a_storm_over_a_container_loses_nothing_and_runs_nothing_twice(
    serve: Callable[..., Server],
) -> None:
    """The same as pid 1 of its namespace, where every job dies with the server."""
    ended = weather(serve(before=IN_NAMESPACE), 51, ROUNDS)
    assert sum(ended.values()) >= ROUNDS


@pytest.mark.parametrize(("case", "seed"), [("7-admission", 7), ("16-dispatch", 16)])
def test_case(case: str, seed: int, serve: Callable[..., Server]) -> None:
    """Cases 7 and 16: kill -9 S between insertion and dispatch, and right after it; R runs, once."""
    rng = random.Random(seed)
    server = serve(jobs(t={"run": diary(), "overlap": "allow"})).start()
    crash = crash_at_admission if case.startswith("7") else crash_at_dispatch
    for number in range(ROUNDS):
        crash(server, rng, number)
    assert len(server.lines(word="start")) == ROUNDS
    assert len(server.runs()) == ROUNDS
