"""The bench keeps its keys and still runs; speeds are never tested."""

import asyncio
import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from bench import ledger
from bench.__main__ import BENCHES
from bench.figures import KEYS
from bench.measure import percentile
from bench.report import Out

WANTED = (
    "process_runs_per_s",
    "ledger_runs_per_s_single",
    "ledger_runs_per_s_16",
    "ledger_runs_per_s_batched",
    "fire_ms_p50",
    "fire_ms_p99",
    "burst_1000_starts_per_s",
    "idle_rss_mib_edge",
    "idle_rss_mib_standalone",
    "idle_db_reads_per_min",
    "idle_db_writes_per_min",
    "idle_cpu_percent",
    "help_ms",
    "ready_ms",
    "readopt_200_ms",
    "history_1m_plan_same",
    "history_1m_time_ratio",
    "history_1m_list_ms_p95",
)


def test_the_keys_are_exactly_these():
    assert KEYS == WANTED


def test_every_key_belongs_to_one_benchmark():
    assert sorted(key for _, keys in BENCHES.values() for key in keys) == sorted(WANTED)


def test_the_quick_ledger_benchmark_runs_and_is_stored(tmp_path):
    out = Out(silent=True)
    asyncio.run(ledger.run(out, tmp_path, quick=True))
    stored = json.loads(out.store(tmp_path / "out", "quick", out.table(tmp_path)).read_text())
    assert list(stored) == list(WANTED[1:4])
    assert all(value > 0 for value in stored.values())


def test_percentiles_are_nearest_ranks():
    values = [float(value) for value in range(1, 101)]
    assert [percentile(values, share) for share in (0, 0.5, 0.951, 0.99, 1)] == [1, 50, 96, 99, 100]
