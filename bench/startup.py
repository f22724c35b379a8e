"""Starting: ``ql --help``, and ``ql up`` until it is ready."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path
from statistics import median

from bench.measure import circumstances
from bench.report import Out
from bench.serving import QL, Up, environment, job_file, yearly


async def run(out: Out, folder: Path, quick: bool) -> None:
    """Medians, after one start that compiled the modules."""
    times = 2 if quick else 11
    if out.wanted("help_ms"):
        out.figure("help_ms", _help(folder, times))
    if out.wanted("ready_ms"):
        _ready(out, folder, "1 task, new data folder", 1, times, fresh=True)
        _ready(out, folder, "1,000 tasks, same data folder again", 1_000, times, fresh=False)
        out.figure("ready_ms", _ready(out, folder, "1,000 tasks, new data folder", 1_000, times, fresh=True))


def _help(folder: Path, times: int) -> float:
    took: list[float] = []
    for number in range(times + 1):
        begun = time.perf_counter()
        subprocess.run([QL, "--help"], check=True, capture_output=True, env=environment(folder))
        if number:
            took.append((time.perf_counter() - begun) * 1000)
    return median(took)


def _ready(out: Out, folder: Path, what: str, tasks: int, times: int, *, fresh: bool) -> float:
    took: list[float] = []
    for number in range(times + 1):
        place = folder / f"ready-{tasks}-{number if fresh else 'again'}"
        place.mkdir(exist_ok=True)
        file = place / "jobs.yaml"
        if not file.exists():
            file.write_text(job_file(yearly(tasks)), "utf-8")
        up = Up(place, file, caches=folder)
        try:
            seconds = up.ready()
        finally:
            up.stop()
        if number:
            took.append(seconds * 1000)
    out.note(
        "ready_ms",
        f"{what}: median {median(took):,.0f} ms, {min(took):,.0f} to {max(took):,.0f}; {circumstances(folder)}",
    )
    return median(took)
