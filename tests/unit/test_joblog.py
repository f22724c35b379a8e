"""The log file by itself: cap, hole, cut, reader, seal (I9). Logical offsets are exact throughout."""

from __future__ import annotations

import hashlib
import os

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from host_support import read_all
from qinglong.limits import KIB, LOG_READ_BYTES
from qinglong.worker.host import SealedLog
from qinglong.worker.linux import joblog, punching

CAP = 64 * KIB


def pattern(size: int) -> bytes:
    """Bytes in which every offset can be told from every other nearby."""
    return b"".join(b"%015d\n" % n for n in range(size // 16 + 1))[:size]


@pytest.fixture(params=["punch", "cut"])
def holes(request, monkeypatch):
    """With and without a file system that can punch holes."""
    if request.param == "cut":
        monkeypatch.setattr(punching, "punch", lambda *_: False)
    return request.param


def test_a_short_log_is_kept_whole(tmp_path, holes):
    log = tmp_path / "a.log"
    data = pattern(CAP)
    log.write_bytes(data)
    assert joblog.trim(log, CAP) == CAP
    assert joblog.seal(log, CAP) == SealedLog(CAP, 0, hashlib.sha256(data).hexdigest())
    assert read_all(log, 1000) == (data, [])
    assert [path.name for path in tmp_path.iterdir()] == ["a.log"]


@pytest.mark.parametrize("cap", [CAP, CAP + 1, 10_001])
def test_a_long_log_keeps_head_and_tail(tmp_path, holes, cap):
    log = tmp_path / "a.log"
    data = pattern(1_000_003)
    log.write_bytes(data)
    sealed = joblog.seal(log, cap)
    head, tail = data[: cap // 2], data[len(data) - (cap - cap // 2) :]
    assert sealed == SealedLog(len(data), len(data) - cap, hashlib.sha256(head + tail).hexdigest())
    assert joblog.seal(log, cap) == sealed
    assert joblog.length(log) == len(data)
    assert read_all(log, 777) == (head + tail, [(cap // 2, len(data) - len(tail))])
    assert log.stat().st_blocks * 512 <= cap + 3 * 4096


def test_a_read_that_begins_inside_the_hole_tells_what_it_missed(tmp_path, holes):
    log = tmp_path / "a.log"
    data = pattern(1_000_000)
    log.write_bytes(data)
    joblog.seal(log, CAP)
    end = len(data) - CAP // 2
    chunk = joblog.read(log, 500_000, 16)
    assert chunk == joblog.LogChunk(data[end : end + 16], end, end + 16, False, (500_000, end))
    assert joblog.read(log, CAP // 2, 0) == joblog.LogChunk(b"", end, end, False, (CAP // 2, end))


def test_reads_are_bounded_and_say_where_the_end_is(tmp_path):
    log = tmp_path / "a.log"
    log.write_bytes(bytes(LOG_READ_BYTES + 5))
    first = joblog.read(log, 0, 10**9)
    assert (len(first.data), first.end) == (LOG_READ_BYTES, False)
    assert joblog.read(log, first.next_offset, 10**9) == joblog.LogChunk(
        bytes(5), LOG_READ_BYTES, LOG_READ_BYTES + 5, True, None
    )
    beyond = joblog.read(log, 10**9, 10)
    assert beyond == joblog.LogChunk(b"", 10**9, 10**9, True, None)


def test_no_log(tmp_path):
    log = tmp_path / "none.log"
    with pytest.raises(FileNotFoundError):
        joblog.read(log, 0, 10)
    assert joblog.length(log) == 0
    assert joblog.trim(log, CAP) == 0
    assert joblog.seal(log, CAP) == SealedLog(0, 0, hashlib.sha256().hexdigest())


def test_offsets_stay_exact_while_the_log_grows(tmp_path):
    """A follower that keeps up sees every byte; one that does not sees a gap of exactly what it missed."""
    log = tmp_path / "a.log"
    log.touch()
    data = pattern(3_000_000)
    seen, at = b"", 0
    for start in range(0, len(data), 50_000):
        with log.open("ab") as file:
            file.write(data[start : start + 50_000])
        joblog.trim(log, 200_000)
        assert log.stat().st_blocks * 512 <= 200_000 + 64 * KIB + 50_000 + 64 * KIB
        while not (chunk := joblog.read(log, at, 30_000)).end or chunk.data:
            assert chunk.gap is None
            seen += chunk.data
            at = chunk.next_offset
    assert seen == data
    sealed = joblog.seal(log, 200_000)
    assert (sealed.length, sealed.dropped) == (3_000_000, 2_800_000)


def test_zeros_and_sparse_output_are_not_taken_for_the_hole(tmp_path):
    log = tmp_path / "a.log"
    with log.open("wb") as file:
        file.write(b"x")
        file.truncate(CAP)
    assert joblog.seal(log, CAP).dropped == 0
    assert read_all(log)[0] == b"x" + bytes(CAP - 1)


def test_a_job_that_empties_its_own_log(tmp_path):
    """``> /dev/stdout`` truncates the file: the hole that was noted before no longer exists."""
    log = tmp_path / "a.log"
    log.write_bytes(pattern(500_000))
    joblog.trim(log, CAP)
    os.truncate(log, 0)
    with log.open("ab") as file:
        file.write(b"afresh")
    assert joblog.trim(log, CAP) == 6
    assert read_all(log) == (b"afresh", [])
    assert joblog.seal(log, CAP) == SealedLog(6, 0, hashlib.sha256(b"afresh").hexdigest())
    with log.open("ab") as file:
        file.write(pattern(500_000))
    assert read_all(log)[0] == b"afresh" + pattern(500_000)


@pytest.mark.parametrize("crash_at", ["before the rename", "after the rename"])
def test_a_cut_that_was_interrupted_is_readable_and_can_be_finished(tmp_path, monkeypatch, crash_at):
    monkeypatch.setattr(punching, "punch", lambda *_: False)
    log = tmp_path / "a.log"
    data = pattern(500_000)
    log.write_bytes(data)
    real = type(log).rename

    def rename(self, target):
        if target == log:
            if crash_at == "after the rename":
                real(self, target)
            raise InterruptedError
        return real(self, target)

    monkeypatch.setattr(type(log), "rename", rename)
    with pytest.raises(InterruptedError):
        joblog.seal(log, CAP)
    monkeypatch.undo()
    monkeypatch.setattr(punching, "punch", lambda *_: False)
    kept = data[: CAP // 2] + data[-CAP // 2 :]
    assert read_all(log)[0] == kept
    sealed = joblog.seal(log, CAP)
    assert sealed == SealedLog(len(data), len(data) - CAP, hashlib.sha256(kept).hexdigest())
    assert log.stat().st_size == CAP
    assert read_all(log)[0] == kept


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    cap=st.integers(2, 3_000),
    writes=st.lists(st.integers(0, 4_000), max_size=12),
    punchable=st.booleans(),
    limit=st.integers(1, 5_000),
)
def test_whatever_is_written_head_and_tail_are_kept(tmp_path_factory, cap, writes, punchable, limit):
    """Property: for every cap and growth, what is read back is the head, one exact gap, the tail."""
    log = tmp_path_factory.mktemp("log") / "a.log"
    data, real = pattern(sum(writes)), punching.punch
    log.touch()
    at = 0
    punching.punch = real if punchable else (lambda *_: False)
    try:
        for size in writes:
            with log.open("ab") as file:
                file.write(data[at : at + size])
            at += size
            assert joblog.trim(log, cap, slack=100) == at
        sealed = joblog.seal(log, cap)
    finally:
        punching.punch = real
    kept = data if len(data) <= cap else data[: cap // 2] + data[len(data) - (cap - cap // 2) :]
    assert sealed == SealedLog(len(data), len(data) - len(kept), hashlib.sha256(kept).hexdigest())
    read, gaps = read_all(log, limit)
    assert read == kept
    assert gaps == ([(cap // 2, len(data) - (cap - cap // 2))] if sealed.dropped else [])
