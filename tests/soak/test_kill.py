"""The storm of ``tests/e2e/test_kill.py`` for hundreds of rounds: ``make soak``.

``QL_SOAK_ROUNDS`` says how many (200), ``QL_SOAK_SEED`` repeats a storm.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from support.chaos import crash_at_admission, crash_at_dispatch, weather
from support.server import IN_NAMESPACE, IS_ROOT, Server, diary, jobs

ROUNDS = int(os.environ.get("QL_SOAK_ROUNDS", "200"))
SEED = int(os.environ.get("QL_SOAK_SEED", str(random.SystemRandom().randrange(1 << 32))))


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[..., Server]]:
    """Make a server that is not started yet; its newest words are shown when the test fails."""
    made: list[Server] = []

    def make(*, before: tuple[str, ...] = ()) -> Server:
        made.append(Server(tmp_path / "s", before=before))
        return made[0]

    yield make
    for server in made:
        for words in sorted(server.folder.glob("up.*"), key=lambda path: path.stat().st_mtime)[-4:]:
            print(f"--- {words.name}\n{words.read_text('utf-8', 'replace')[-4000:]}")
        server.close()


@pytest.mark.timeout(0)
@pytest.mark.parametrize("place", ["machine", "container"])
def test_i1_i3_a_long_storm_loses_nothing_and_runs_nothing_twice(
    place: str, serve: Callable[..., Server]
) -> None:
    """Every promise of ``support.chaos.judge`` after hundreds of random kills, also as pid 1 of a namespace."""
    if place == "container" and not IS_ROOT:
        pytest.skip("a pid namespace needs root here")
    ended = weather(serve(before=IN_NAMESPACE if place == "container" else ()), SEED, ROUNDS)
    print(f"{place}, seed {SEED}, {ROUNDS} rounds: {dict(ended)}")
    assert sum(ended.values()) >= ROUNDS


@pytest.mark.timeout(0)
@pytest.mark.parametrize("crash", [crash_at_admission, crash_at_dispatch], ids=["case-7", "case-16"])
def test_case_7_and_16_a_hundred_crashes_around_the_dispatch(
    crash: Callable[[Server, random.Random, int], None], serve: Callable[..., Server]
) -> None:
    """Kill -9 S between insertion and dispatch, and right after it, 100 times: each R runs, once."""
    rounds = max(ROUNDS // 2, 1)
    rng = random.Random(SEED)
    server = serve()
    server.edit(jobs(t={"run": diary(), "overlap": "allow"}))
    server.start()
    for number in range(rounds):
        crash(server, rng, number)
    assert len(server.lines(word="start")) == len(server.runs()) == rounds
