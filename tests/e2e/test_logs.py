"""Output: a flood is cut with a marker and costs the server nothing, bytes are kept as they were written."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path

from support.server import Server, diary, jobs, wait_until

MIB = 1 << 20


def _resident(pid: int) -> int:
    text = Path(f"/proc/{pid}/status").read_text()
    return int(text.partition("VmRSS:")[2].split()[0]) * 1024


def test_case_52_a_flood_keeps_head_and_tail_and_the_servers_memory_flat(
    serve: Callable[..., Server],
) -> None:
    """The live tail goes on meanwhile; what was dropped is counted, marked and reported."""
    flood = "echo begin; yes | tr -d '\\n' | head -c 200000000; until [ -e go ]; do sleep 0.05; done; echo; echo end"
    server = serve(
        jobs(t=diary(flood), u=diary("echo one; until [ -e go ]; do sleep 0.05; done; echo two"))
    ).start()
    server.stop()
    server.options = ("--profile", "edge", "--slots", "2")
    server.start()
    tail = server.spawn("run", "u", "--follow")
    assert tail.stdout is not None
    assert tail.stdout.readline() == b"one\n"
    before = _resident(server.pid)
    run = server.admit("t")
    follow = server.spawn("logs", "-f", run)
    assert follow.stdout is not None
    assert follow.stdout.readline() == b"begin\n"
    log = next(server.data.glob(f"attempts/{run}/*.log"))
    wait_until(lambda: log.stat().st_size > 200_000_000, "it is all written", 60)
    wait_until(lambda: log.stat().st_blocks * 512 < 6 * MIB, "the middle is given back to the disk", 60)
    assert _resident(server.pid) - before < 24 * MIB
    (server.folder / "go").touch()
    assert (server.finish(tail).code, server.until(run)["run"]["state"]) == (0, "succeeded")
    assert server.finish(follow, 60).code == 0

    attempt = server.detail(run)["attempts"][0]
    assert attempt["log_bytes"] == 200_000_000 + len("begin\n\nend\n")
    assert attempt["log_dropped"] == attempt["log_bytes"] - 4 * MIB
    shown = server.ql("logs", run).out
    assert shown.startswith("begin\nyyy")
    assert shown.endswith("yyy\nend\n")
    assert f"[… {attempt['log_dropped']:,} bytes dropped …]" in shown
    raw = server.ql("logs", run, "--raw").out.encode()
    assert len(raw) == 4 * MIB
    assert hashlib.sha256(raw).hexdigest() == attempt["log_digest"]
    assert "cut" in server.ql("show", run).out


def test_output_is_kept_byte_for_byte(serve: Callable[..., Server]) -> None:
    """Also NUL, escapes and broken UTF-8, from stdout and stderr in their order."""
    noise = os.urandom(4_096) + bytes(range(256)) + b"\x1b[2J\xff\xfe no newline at the end"
    server = serve(jobs(t="cat noise; echo problem >&2"))
    (server.folder / "noise").write_bytes(noise)
    server.start()
    run = server.admit("t")
    attempt = server.until(run)["attempts"][0]
    assert server.log(run) == noise + b"problem\n"
    assert attempt["log_bytes"] == len(noise) + 8
    assert attempt["log_digest"] == hashlib.sha256(noise + b"problem\n").hexdigest()
    # The terminal of `ql up` shows it without anything that could drive a terminal.
    server.says("problem")
    assert "\x1b" not in server.out
    assert "\0" not in server.out
