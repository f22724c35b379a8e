"""From a due moment to a started process: one at a time among 1,000 tasks, and 1,000 at the same second."""

from __future__ import annotations

import datetime as dt
import time
from pathlib import Path
from statistics import median
from typing import Any

from bench.measure import circumstances, percentile
from bench.report import Out
from bench.serving import Up, job_file, yearly
from qinglong.worker.host import AttemptKey
from qinglong.worker.linux.folder import log_path

_TASKS = 1_000
_LEAD_S = 6
"""From writing the file to its first due moment."""

_STEPS = """
SELECT run_id, r.scheduled_ms, r.created_ms, a.claimed_ms, a.starting_ms, a.running_ms
FROM runs r JOIN attempts a USING (run_id)
"""


def _at(second: int) -> str:
    return dt.datetime.fromtimestamp(second, dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


async def run(out: Out, folder: Path, quick: bool) -> None:
    """Both, in a real ``ql up``."""
    if out.wanted("fire_ms_p50", "fire_ms_p99"):
        late = _fires(folder / "fire", 5 if quick else 120, 50 if quick else _TASKS, folder, out)
        out.figure("fire_ms_p50", median(late))
        out.figure("fire_ms_p99", percentile(late, 0.99))
    if out.wanted("burst_1000_starts_per_s"):
        rates = [
            _burst(folder / f"burst-{number}", 50 if quick else _TASKS, folder, out)
            for number in range(1 if quick else 3)
        ]
        out.figure("burst_1000_starts_per_s", median(rates))


def _fires(folder: Path, samples: int, count: int, caches: Path, out: Out) -> list[float]:
    """Milliseconds from the due moment to what the job reads off the clock: it is ``date``, without a shell."""
    folder.mkdir()
    first = int(time.time()) + _LEAD_S
    tasks: dict[str, dict[str, Any]] = yearly(count - samples)
    for number in range(samples):
        once = {"id": "once", "at": _at(first + number)}
        tasks[f"now{number:04}"] = {"run": ["date", "+%s.%N"], "triggers": [once]}
    file = folder / "jobs.yaml"
    file.write_text(job_file(tasks), "utf-8")
    around = circumstances(folder)
    up = Up(folder, file, caches=caches)
    try:
        up.ready()
        assert time.time() < first, "the machine is too slow for the lead time"
        time.sleep(first + samples - time.time())
        up.wait_for("SELECT count(*) FROM runs WHERE state = 'succeeded'", samples)
    finally:
        up.stop()
    rows = up.rows(_STEPS)
    logs = (log_path(up.data / "attempts", AttemptKey(row[0], "", 1)) for row in rows)
    late = [float(log.read_text("ascii")) * 1000 - row[1] for log, row in zip(logs, rows, strict=True)]
    assert len(late) == samples
    steps = ", ".join(
        f"{name} {median(row[column] - row[1] for row in rows):.0f}"
        for column, name in enumerate(
            ("admitted", "granted", "past the start barrier", "reported running"), 2
        )
    )
    out.note("fire_ms_p50", f"by the ledger's clock, median ms after the due moment: {steps}")
    shown = ", ".join(f"p{share:g} {percentile(late, share / 100):.1f}" for share in (10, 50, 90, 99, 100))
    out.note("fire_ms_p50", f"{samples} samples among {count} tasks, ms: {shown}; {around}")
    return late


def _burst(folder: Path, count: int, caches: Path, out: Out) -> float:
    """Starts per second from the common second until the last command was reported to run."""
    folder.mkdir()
    due = int(time.time()) + _LEAD_S
    tasks = {
        f"now{number:04}": {"run": "true", "triggers": [{"id": "once", "at": _at(due)}]}
        for number in range(count)
    }
    file = folder / "jobs.yaml"
    file.write_text(job_file(tasks), "utf-8")
    around = circumstances(folder)
    up = Up(folder, file, slots=8, caches=caches)
    try:
        up.ready()
        assert time.time() < due, "the machine is too slow for the lead time"
        time.sleep(due - time.time() + 1)
        up.wait_for("SELECT count(*) FROM runs WHERE state = 'succeeded'", count)
    finally:
        up.stop()
    first, last, admitted = up.rows(
        "SELECT min(a.running_ms), max(a.running_ms), max(r.created_ms) "
        "FROM attempts a JOIN runs r USING (run_id)"
    )[0]
    rate = count / ((last - due * 1000) / 1000)
    out.note(
        "burst_1000_starts_per_s",
        f"{rate:,.0f} starts/s; last admitted after {admitted - due * 1000} ms, first started after "
        f"{first - due * 1000} ms, last after {last - due * 1000} ms; {around}",
    )
    return rate
