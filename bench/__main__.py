"""``python -m bench [--only NAME…] [--quick] [--folder DIR]``."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import uvloop

from bench import firing, history, idle, ledger, process, readopt, startup
from bench.figures import KEYS
from bench.measure import temporary
from bench.report import Out

Bench = Callable[[Out, Path, bool], Coroutine[Any, Any, None]]
BENCHES: dict[str, tuple[Bench, tuple[str, ...]]] = {
    "process": (process.run, ("process_runs_per_s",)),
    "ledger": (
        ledger.run,
        ("ledger_runs_per_s_single", "ledger_runs_per_s_16", "ledger_runs_per_s_batched"),
    ),
    "firing": (firing.run, ("fire_ms_p50", "fire_ms_p99", "burst_1000_starts_per_s")),
    "idle": (
        idle.run,
        (
            "idle_rss_mib_edge",
            "idle_rss_mib_standalone",
            "idle_db_reads_per_min",
            "idle_db_writes_per_min",
            "idle_cpu_percent",
        ),
    ),
    "startup": (startup.run, ("help_ms", "ready_ms")),
    "readopt": (readopt.run, ("readopt_200_ms",)),
    "history": (history.run, history.KEYS),
}
OUT = Path(__file__).parent / "out"


def main() -> int:
    """Measure what was asked for."""
    parser = argparse.ArgumentParser(prog="python -m bench", description="Measure QingLong.")
    parser.add_argument("--only", nargs="+", metavar="NAME", default=[], choices=[*BENCHES, *KEYS])
    parser.add_argument("--quick", action="store_true", help="small sizes: a smoke test, no figures")
    parser.add_argument("--folder", type=Path, help="where data folders are made (default: $TMPDIR)")
    asked = parser.parse_args()
    only = {key for name in asked.only for key in (BENCHES[name][1] if name in BENCHES else (name,))}
    out = Out(frozenset(only))
    with temporary(asked.folder) as folder:
        for bench, keys in BENCHES.values():
            if out.wanted(*keys):
                with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                    runner.run(bench(out, folder, asked.quick))
        text = out.table(folder)
    out.say("\n" + text)
    name = "quick" if asked.quick else "partial" if only else "standalone"
    out.say(f"\nwritten to {out.store(OUT, name, text)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
