"""Small instruments: medians, percentiles, CPU and memory of processes, temporary folders."""

from __future__ import annotations

import contextlib
import math
import os
import resource
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import NamedTuple

_TICK_S = 1 / os.sysconf("SC_CLK_TCK")


def percentile(values: list[float], share: float) -> float:
    """The smallest value that at least ``share`` of all values do not exceed (nearest rank)."""
    ordered = sorted(values)
    return ordered[max(math.ceil(len(ordered) * share), 1) - 1]


def load() -> float:
    """Runnable processes on average over the last minute."""
    return os.getloadavg()[0]


def fdatasync_us(folder: Path, writes: int = 20) -> float:
    """Median of fdatasync(2) after overwriting 8 KiB in ``folder``: what durability costs right now."""
    folder.mkdir(parents=True, exist_ok=True)
    path, block, took = folder / "fdatasync.probe", bytes(8192), []
    fd = os.open(path, os.O_WRONLY | os.O_CREAT)
    try:
        for number in range(writes + 1):
            os.pwrite(fd, block, 0)
            begun = time.perf_counter()
            os.fdatasync(fd)
            if number:
                took.append((time.perf_counter() - begun) * 1e6)
    finally:
        os.close(fd)
        path.unlink()
    return median(took)


def create_us(folder: Path, files: int = 20) -> float:
    """Median of making a new file in ``folder``: ext4 gets slow where many were deleted in the last seconds."""
    took: list[float] = []
    paths = [folder / f"create.probe-{number}" for number in range(files)]
    for path in paths:
        begun = time.perf_counter()
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL))
        took.append((time.perf_counter() - begun) * 1e6)
    for path in paths:
        path.unlink()
    return median(took)


def circumstances(folder: Path) -> str:
    """What else the machine was doing: its load, and how long a durable write and a new file take."""
    return (
        f"load {load():.1f}, fdatasync {fdatasync_us(folder):,.0f} µs, new file {create_us(folder):,.0f} µs"
    )


class Spent(NamedTuple):
    """What a stretch of work took."""

    wall_s: float
    cpu_s: float
    """Of this process, all threads."""
    children_cpu_s: float
    """Of processes that ended and were waited for."""


class Stopwatch:
    """Wall and CPU time since it was made."""

    def __init__(self) -> None:
        self._begun = self._now()

    @staticmethod
    def _now() -> tuple[float, float, float]:
        children = resource.getrusage(resource.RUSAGE_CHILDREN)
        return time.perf_counter(), time.process_time(), children.ru_utime + children.ru_stime

    def spent(self) -> Spent:
        """So far."""
        return Spent(*(now - then for now, then in zip(self._now(), self._begun, strict=True)))


def cpu_s(pid: int) -> float:
    """User and system time of a process so far, its ended children not counted (proc(5): utime, stime)."""
    fields = Path(f"/proc/{pid}/stat").read_text("ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) * _TICK_S


def switches(pid: int) -> int:
    """How often the process' threads have gone to sleep by themselves and were woken again."""
    found = 0
    for status in Path(f"/proc/{pid}/task").glob("*/status"):
        for line in status.read_text("ascii").splitlines():
            if line.startswith("voluntary_ctxt_switches:"):
                found += int(line.split()[1])
    return found


def memory_mib(pid: int) -> tuple[float, float]:
    """(RSS, PSS) of a process in MiB."""
    return _kib(pid, "status", "VmRSS:") / 1024, _kib(pid, "smaps_rollup", "Pss:") / 1024


def _kib(pid: int, name: str, field: str) -> int:
    for line in Path(f"/proc/{pid}/{name}").read_text("ascii").splitlines():
        if line.startswith(field):
            return int(line.split()[1])
    raise LookupError(field)


@contextlib.contextmanager
def temporary(parent: Path | None) -> Iterator[Path]:
    """A folder that is gone afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="ql-bench-", dir=parent))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
