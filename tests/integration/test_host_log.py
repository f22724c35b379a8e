"""Output of real commands: flat memory, bounded disk, head and tail exact, live reading (case 52, I9)."""

from __future__ import annotations

import asyncio
import hashlib
import resource

import pytest

from host_support import Machine, argv, eventually, read_all, text
from qinglong.limits import KIB, MIB
from qinglong.worker.host import Receipt
from qinglong.worker.linux import joblog

CAP = 2 * MIB
LINES = 12_500_000
"""Of 16 bytes: 200 MB."""


def line(number: int) -> bytes:
    return b"%015d\n" % number


@pytest.fixture
def machine(tmp_path):
    with Machine(tmp_path, cap=CAP) as made:
        yield made


def test_case_52_two_hundred_megabytes_through_a_small_cap(machine):
    writer = (
        "import sys\n"
        f"for start in range(0, {LINES}, 4096):\n"
        f"    sys.stdout.write(''.join('%015d\\n' % n for n in range(start, min(start + 4096, {LINES}))))\n"
    )
    job = machine.run(argv("python3", "-I", "-c", writer))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    at, written, most, gaps, seen = 0, 0, 0, 0, 0
    while job.host.receipt(job.key) is None:
        length = job.host.trim_log(job.key)
        disk = job.log_path.stat().st_blocks * 512
        most = max(most, disk - (joblog.length(job.log_path) - length))
        chunk = joblog.read(job.log_path, at, 64 * KIB)
        gaps += chunk.gap is not None
        if len(chunk.data) >= 32:
            first = chunk.data.index(b"\n") + 1
            number = int(chunk.data[first : first + 15])
            assert chunk.offset + first == number * 16
            seen += 1
        at, written = chunk.next_offset, length
    assert job.wait() == Receipt("ended", 0)
    assert written > CAP
    assert seen > 10
    # Cap, slack, and what is written between the two looks above.
    assert most < CAP + 2 * MIB
    sealed = asyncio.run(job.host.seal_log(job.key))
    assert (sealed.length, sealed.dropped) == (LINES * 16, LINES * 16 - CAP)
    head = b"".join(line(n) for n in range(CAP // 32))
    tail = b"".join(line(n) for n in range(LINES - CAP // 32, LINES))
    assert sealed.digest == hashlib.sha256(head + tail).hexdigest()
    assert read_all(job.log_path) == (head + tail, [(CAP // 2, LINES * 16 - CAP // 2)])
    assert job.log_path.stat().st_blocks * 512 <= CAP + 64 * KIB
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 32 * 1024


def test_a_running_log_is_read_by_offset(machine):
    job = machine.run(text("echo one; until [ -e more ]; do sleep 0.01; done; echo two"))
    job.says("one")
    first = joblog.read(job.log_path, 0, 100)
    assert first == joblog.LogChunk(b"one\n", 0, 4, True, None)
    assert joblog.read(job.log_path, 4, 100) == joblog.LogChunk(b"", 4, 4, True, None)
    (machine.tmp / "more").touch()
    eventually(lambda: joblog.read(job.log_path, 4, 100).data == b"two\n")


def test_the_log_outlives_everything_else(machine):
    """Case 54 on one machine: what only the execution needed goes, the log stays."""
    job = machine.run(text("echo kept"))
    job.wait()
    sealed = asyncio.run(job.host.seal_log(job.key))
    job.host.discard(job.key)
    job.host.discard(job.key)
    assert [path.name for path in job.log_path.parent.iterdir()] == ["-.1.log"]
    assert read_all(job.log_path) == (b"kept\n", [])
    assert sealed.digest == hashlib.sha256(b"kept\n").hexdigest()
    assert job.host.receipt(job.key) is None
    assert job.presence().state == "gone"


def test_writers_append_whatever_the_cap_does(machine):
    """Two descriptors, trims in between: no byte moves, none is overwritten."""
    job = machine.run(
        text("yes 0123456789abcde | head -c 8000000 & yes fedcba987654321 | head -c 8000000; wait")
    )
    while job.host.receipt(job.key) is None:
        job.host.trim_log(job.key)
    sealed = asyncio.run(job.host.seal_log(job.key))
    assert sealed.length == 16_000_000
    data, gaps = read_all(job.log_path)
    assert len(data) == CAP
    assert len(gaps) == 1
    assert set(data.splitlines()) <= {b"0123456789abcde", b"fedcba987654321"}
