"""Runs per second through everything: ledger, journal, keeper, receipt, log, acknowledged completion."""

from __future__ import annotations

import asyncio
import itertools
from pathlib import Path
from statistics import median

from bench.measure import Stopwatch, circumstances
from bench.report import Out
from bench.rig import tasks
from qinglong.domain.completion import Result
from qinglong.profiles.node import PROFILES, Node
from qinglong.worker.journal import Entry

SLOTS = 8
_FEEDERS = 16


class Counter:
    """``worker.execution.Observer``: sets ``done`` when so many Attempts have ended."""

    def __init__(self) -> None:
        self.left = 0
        self.done = asyncio.Event()

    def expect(self, count: int) -> None:
        """Start counting."""
        self.left = count
        self.done.clear()

    def began(self, entry: Entry) -> None:
        """See the port."""

    def ended(self, entry: Entry, result: Result | None) -> None:
        """See the port."""
        assert result is not None and result.exit_code == 0, result
        self.left -= 1
        if self.left == 0:
            self.done.set()


async def run(out: Out, folder: Path, quick: bool) -> None:
    """Admissions by hand, 16 at a time, and 8 slots, until the last completion is acknowledged."""
    key = "process_runs_per_s"
    node = Node(folder / "process", PROFILES["standalone"], slots=SLOTS)
    node.open()
    try:
        counter = Counter()
        node.agent.observer = counter
        runs = 24 if quick else 600
        await node.start(tasks(runs))
        rates: list[float] = []
        await _once(node, counter, min(runs, 64))
        for _ in range(1 if quick else 5):
            around, figures = circumstances(node.data), node.control.figures()
            watch = Stopwatch()
            await _once(node, counter, runs)
            spent, after = watch.spent(), node.control.figures()
            rates.append(runs / spent.wall_s)
            counts = ", ".join(
                f"{(after[name] - figures[name]) / runs:.2f} {text}"
                for name, text in (
                    ("ledger.commits", "ledger commits"),
                    ("ledger.transactions", "transactions"),
                    ("ledger.reads", "reads"),
                    ("journal.commits", "journal commits"),
                )
            )
            out.note(
                key,
                f"{rates[-1]:,.0f} runs/s; a run: CPU {spent.cpu_s / runs * 1e6:,.0f} µs server, "
                f"{spent.children_cpu_s / runs * 1e6:,.0f} µs keeper and command, {counts}; {around}",
            )
        out.figure(key, median(rates))
    finally:
        await node.drain(5_000)
        await node.close()


async def _once(node: Node, counter: Counter, runs: int) -> None:
    counter.expect(runs)
    numbers = itertools.count()

    async def feed() -> None:
        while (number := next(numbers)) < runs:
            await node.control.run("default", f"t{number:04}", by="bench")

    await asyncio.gather(*(feed() for _ in range(_FEEDERS)))
    await counter.done.wait()
