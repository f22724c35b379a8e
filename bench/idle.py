"""An idle server with 1,000 tasks: memory, CPU, reads and writes."""

from __future__ import annotations

import time
from pathlib import Path
from typing import NamedTuple

from bench.measure import cpu_s, load, memory_mib, switches
from bench.report import Out
from bench.serving import Up, job_file, yearly

_TASKS = 1_000
_SETTLE_S = 5.0
_WINDOW_S = 65.0
_READS = ("qinglong_ledger_reads_total", "qinglong_queries_reads_total")
_WRITES = ("qinglong_ledger_commits_total", "qinglong_journal_commits_total")


class Idle(NamedTuple):
    """What one profile took."""

    rss_mib: float
    reads: float
    writes: float
    cpu_percent: float


async def run(out: Out, folder: Path, quick: bool) -> None:
    """Both profiles at the same time; the counts are those of the worse one."""
    settle, window = (1.0, 2.0) if quick else (_SETTLE_S, _WINDOW_S)
    servers = {}
    found: dict[str, Idle] = {}
    try:
        for profile in ("edge", "standalone"):
            place = folder / f"idle-{profile}"
            place.mkdir()
            file = place / "jobs.yaml"
            file.write_text(job_file(yearly(50 if quick else _TASKS)), "utf-8")
            servers[profile] = Up(place, file, profile=profile, caches=folder)
        for up in servers.values():
            up.ready()
        found = _watch(out, servers, settle, window)
    finally:
        for up in servers.values():
            up.stop()
    for profile, idle in found.items():
        if out.wanted(f"idle_rss_mib_{profile}"):
            out.figure(f"idle_rss_mib_{profile}", idle.rss_mib)
    for key, value in (
        ("idle_db_reads_per_min", max(idle.reads for idle in found.values())),
        ("idle_db_writes_per_min", max(idle.writes for idle in found.values())),
        ("idle_cpu_percent", max(idle.cpu_percent for idle in found.values())),
    ):
        if out.wanted(key):
            out.figure(key, value)


def _watch(out: Out, servers: dict[str, Up], settle: float, window: float) -> dict[str, Idle]:
    """Memory before anybody asks; then two scrapes with nothing but waiting in between."""
    time.sleep(settle)
    memory = {profile: memory_mib(up.pid) for profile, up in servers.items()}
    before = {profile: up.metrics() for profile, up in servers.items()}
    time.sleep(settle)
    begun, cpu = time.monotonic(), {profile: cpu_s(up.pid) for profile, up in servers.items()}
    woken = {profile: switches(up.pid) for profile, up in servers.items()}
    time.sleep(window)
    took = time.monotonic() - begun
    spent = {profile: cpu_s(up.pid) - cpu[profile] for profile, up in servers.items()}
    woken = {profile: switches(up.pid) - woken[profile] for profile, up in servers.items()}
    asked = {profile: memory_mib(up.pid)[0] for profile, up in servers.items()}
    after = {profile: up.metrics() for profile, up in servers.items()}
    found: dict[str, Idle] = {}
    for profile in servers:
        counted = {name: after[profile][name] - before[profile][name] for name in after[profile]}
        minutes = (took + settle) / 60
        # A scrape's own query happens after its figures were taken: the first one's falls into the window.
        reads = sum(counted.get(name, 0) for name in _READS) - (1 if _READS[1] in counted else 0)
        found[profile] = Idle(
            memory[profile][0],
            max(reads, 0) / minutes,
            sum(counted[name] for name in _WRITES) / minutes,
            100 * spent[profile] / took,
        )
        rss, pss = memory[profile]
        out.note(
            f"idle_rss_mib_{profile}",
            f"RSS {rss:.1f} MiB, PSS {pss:.1f} MiB, RSS {asked[profile]:.1f} MiB after a scrape; "
            f"{found[profile].reads:.2f} reads and {found[profile].writes:.2f} writes a minute, "
            f"CPU {found[profile].cpu_percent:.3f} %, {woken[profile] / took:.1f} wake-ups/s; load {load():.1f}",
        )
    return found
