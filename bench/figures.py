"""The figures: what is measured, in which unit, and what is aimed at."""

from __future__ import annotations

from typing import Literal, NamedTuple


class Figure(NamedTuple):
    """One key of ``bench/out/standalone.json``."""

    key: str
    unit: str
    better: Literal["more", "less", "equal"]
    target: float
    text: str

    def met(self, value: float) -> bool:
        """Whether ``value`` reaches the target."""
        if self.better == "equal":
            return value == self.target
        return value >= self.target if self.better == "more" else value <= self.target

    @property
    def goal(self) -> str:
        """The target for people."""
        sign = {"more": "≥", "less": "≤", "equal": "="}[self.better]
        return f"{sign} {self.target:,g}"


FIGURES: tuple[Figure, ...] = (
    Figure("process_runs_per_s", "runs/s", "more", 200, "commands `true`, whole path, 8 slots"),
    Figure("ledger_runs_per_s_single", "runs/s", "more", 350, "admit to complete, one caller"),
    Figure("ledger_runs_per_s_16", "runs/s", "more", 1_200, "admit to complete, 16 callers"),
    Figure("ledger_runs_per_s_batched", "runs/s", "more", 4_000, "admit to complete, batches"),
    Figure("fire_ms_p50", "ms", "less", 15, "due moment to the job's first instruction"),
    Figure("fire_ms_p99", "ms", "less", 60, "the same, 99th percentile"),
    Figure("burst_1000_starts_per_s", "starts/s", "more", 150, "1,000 tasks due at the same second"),
    Figure("idle_rss_mib_edge", "MiB", "less", 48, "`ql up --profile edge`, 1,000 tasks"),
    Figure("idle_rss_mib_standalone", "MiB", "less", 64, "`ql up`, 1,000 tasks"),
    Figure("idle_db_reads_per_min", "reads/min", "less", 1, "the same, idle; the worse profile"),
    Figure("idle_db_writes_per_min", "writes/min", "equal", 0, "the same, idle; the worse profile"),
    Figure("idle_cpu_percent", "%", "less", 0.2, "the same, idle; the worse profile"),
    Figure("help_ms", "ms", "less", 200, "`ql --help`"),
    Figure("ready_ms", "ms", "less", 1_000, "start of `ql up` to /readyz = 200"),
    Figure("readopt_200_ms", "ms", "less", 2_000, "restart to 200 live jobs adopted"),
    Figure("history_1m_plan_same", "", "equal", 1, "query plans with 1M finished runs as without"),
    Figure("history_1m_time_ratio", "", "less", 1.3, "time per run with 1M finished runs : without"),
    Figure("history_1m_list_ms_p95", "ms", "less", 50, "pages of 50 runs among 1M"),
)
KEYS: tuple[str, ...] = tuple(figure.key for figure in FIGURES)
BY_KEY: dict[str, Figure] = {figure.key: figure for figure in FIGURES}
