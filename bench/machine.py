"""On what was measured: machine, versions, date."""

from __future__ import annotations

import datetime as dt
import importlib.metadata
import os
import platform
import subprocess
from pathlib import Path

import apsw


def describe(folder: Path) -> list[str]:
    """Lines for people; ``folder`` is where the data folders were."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    cores = len(os.sched_getaffinity(0))
    return [
        f"machine   {cpu_model()}, {cores} cores, {memory:.0f} GiB, {platform.system()} {platform.release()}, "
        f"{file_system(folder)}",
        f"versions  Python {platform.python_version()}, SQLite {apsw.sqlite_lib_version()} "
        f"(apsw {apsw.apsw_version()}), qinglong {importlib.metadata.version('qinglong')} at {commit()}",
        f"date      {dt.datetime.now(dt.UTC).isoformat(timespec='seconds')}, load "
        + " ".join(f"{part:.1f}" for part in os.getloadavg()),
    ]


def cpu_model() -> str:
    """As the kernel names it."""
    for line in Path("/proc/cpuinfo").read_text("utf-8").splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def file_system(folder: Path) -> str:
    """Type of the file system that holds ``folder``."""
    best, kind = "", "unknown file system"
    for line in Path("/proc/self/mounts").read_text("utf-8").splitlines():
        _, point, found, *_ = line.split(" ")
        inside = str(folder.absolute()) + "/"
        if inside.startswith(point.rstrip("/") + "/") and len(point) >= len(best):
            best, kind = point, found
    return kind


def commit() -> str:
    """The git commit of the sources, marked when files under ``src`` differ from it."""
    root = Path(__file__).parent.parent

    def git(*words: str) -> str:
        done = subprocess.run(["git", "-C", str(root), *words], capture_output=True, text=True, check=False)
        return done.stdout.strip()

    return (git("rev-parse", "--short=12", "HEAD") or "no commit") + (
        " with changes" if git("status", "--porcelain", "--", "src") else ""
    )
