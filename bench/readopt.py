"""A server dies by SIGKILL while 200 jobs run; the next one adopts every one of them."""

from __future__ import annotations

from pathlib import Path
from statistics import median

from bench.measure import circumstances
from bench.report import Out
from bench.serving import Up, end_jobs, job_file, read

KEY = "readopt_200_ms"
_LAST = "SELECT count(*), max(at_ms) FROM events WHERE kind = 'adopted' AND at_ms >= ?"


async def run(out: Out, folder: Path, quick: bool) -> None:
    """From the start of the new process to the last ``adopted`` Event, by the ledger's clock."""
    jobs = 10 if quick else 200
    place = folder / "readopt"
    place.mkdir()
    file = place / "jobs.yaml"
    file.write_text(
        job_file(
            {
                f"sleep{number:03}": {"run": ["sleep", "900"], "triggers": [{"id": "boot", "boot": True}]}
                for number in range(jobs)
            }
        ),
        "utf-8",
    )
    took: list[float] = []
    up = Up(place, file, slots=jobs, caches=folder)
    try:
        up.ready()
        up.wait_for("SELECT count(*) FROM runs WHERE state = 'running'", jobs)
        for _ in range(1 if quick else 5):
            up.crash()
            around = circumstances(place)
            up = Up(place, file, slots=jobs, caches=folder)
            ready = up.ready()
            begun_ms = up.begun_ns // 1_000_000
            up.wait_for(f"SELECT count(*) FROM events WHERE kind = 'adopted' AND at_ms >= {begun_ms}", jobs)
            adopted, last_ms = read(up.data, _LAST, (begun_ms,))[0]
            assert adopted == jobs
            took.append(last_ms - begun_ms)
            out.note(
                KEY, f"{jobs} adopted after {took[-1]:,.0f} ms, ready after {ready * 1000:,.0f} ms; {around}"
            )
        out.figure(KEY, median(took))
    finally:
        up.crash()
        end_jobs(up.data)
