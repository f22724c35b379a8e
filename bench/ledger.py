"""Runs per second through domain and ledger alone: no process is started."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable
from pathlib import Path
from statistics import median

from bench import steps
from bench.measure import Stopwatch, circumstances
from bench.report import Out
from bench.rig import Rig, rig, tasks

BATCH = 256
_CALLERS = 16


async def _single(made: Rig, runs: int) -> None:
    caller = await made.caller("single")
    names = itertools.cycle(made.task_ids)
    for _ in range(runs):
        await steps.pulled(made, caller, next(names))


async def _sixteen(made: Rig, runs: int) -> None:
    names = list(made.task_ids)

    async def one(number: int) -> None:
        caller = await made.caller(f"caller-{number}")
        mine = itertools.cycle(names[number::_CALLERS])
        for _ in range(runs // _CALLERS):
            await steps.granted(made, caller, next(mine))

    await asyncio.gather(*map(one, range(_CALLERS)))


async def _batched(made: Rig, runs: int) -> None:
    caller = await made.caller("batched")
    names = tuple(made.task_ids)[:BATCH]
    for _ in range(runs // BATCH):
        await steps.batch(made, caller, names)


async def repeated(
    out: Out, made: Rig, key: str, work: Callable[[Rig, int], Awaitable[None]], runs: int, times: int
) -> float:
    """Median runs per second of ``times`` repetitions after a warm-up."""
    await work(made, max(runs // 10, BATCH))
    rates: list[float] = []
    lines: list[str] = []
    for _ in range(times):
        commits, transactions, around = (
            made.writer.commits,
            made.ledger.transactions,
            circumstances(made.folder),
        )
        watch = Stopwatch()
        await work(made, runs)
        spent = watch.spent()
        rates.append(runs / spent.wall_s)
        lines.append(
            f"{runs / spent.wall_s:,.0f} runs/s, CPU {spent.cpu_s / runs * 1e6:,.0f} µs/run, "
            f"{(made.writer.commits - commits) / runs:.2f} commits and "
            f"{(made.ledger.transactions - transactions) / runs:.2f} transactions a run, "
            f"{around}"
        )
    for line in lines:
        out.note(key, line)
    return median(rates)


async def run(out: Out, folder: Path, quick: bool) -> None:
    """All three, each on a fresh ledger."""
    plan: tuple[tuple[str, Callable[[Rig, int], Awaitable[None]], int], ...] = (
        ("ledger_runs_per_s_single", _single, 640),
        ("ledger_runs_per_s_16", _sixteen, 1_920),
        ("ledger_runs_per_s_batched", _batched, 6_400),
    )
    for key, work, runs in plan:
        if not out.wanted(key):
            continue
        size, times = (BATCH, 1) if quick else (runs, 5)
        place = folder / key
        async with rig(place, tasks(256)) as made:
            out.figure(key, await repeated(out, made, key, work, size, times))
