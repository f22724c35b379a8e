"""What the tests of the Linux host share: a host in a temporary folder that leaves no process behind."""

from __future__ import annotations

import asyncio
import os
import shutil
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

from qinglong.domain.definitions import Command, TaskSpec
from qinglong.worker.host import AttemptKey, Identity, Launch, Presence, Receipt
from qinglong.worker.linux import LinuxHost, folder, grouping, joblog, procfs
from qinglong.worker.linux.handle import KeeperHandle

WITHIN_S = 15.0
HAS_CGROUP = bool(grouping.parent())
IS_ROOT = os.geteuid() == 0
BUSYBOX = shutil.which("busybox")
SHELLS = [("/bin/sh",), ("/bin/bash", "--posix")] + ([(BUSYBOX, "sh")] if BUSYBOX else [])
"""What may be /bin/sh somewhere."""


def text(script: str, shell: Any = "sh") -> Command:
    """A shell text as a command."""
    return Command("text", text=script, shell=shell)


def argv(*words: str) -> Command:
    """A program and its arguments as a command."""
    return Command("argv", argv=words)


def script(path: Path | str, *args: str) -> Command:
    """A script as a command."""
    return Command("script", script=str(path), args=args)


def eventually(condition: Callable[[], Any], within: float = WITHIN_S) -> Any:
    """Wait until ``condition`` is truthy and return what it said; fail after ``within`` seconds."""
    until = time.monotonic() + within
    while not (value := condition()):
        assert time.monotonic() < until, f"not within {within} s"
        time.sleep(0.005)
    return value


def alive(pid: int) -> bool:
    """Is there a live process of that number?"""
    stat = procfs.read_stat(pid)
    return stat is not None and stat.alive


def carriers(run_id: str) -> list[int]:
    """Live processes whose environment holds the id, by a scan of its own (case 62)."""
    found = []
    for pid in procfs.pids():
        try:
            held = f"QL_RUN_ID={run_id}".encode() in Path(f"/proc/{pid}/environ").read_bytes()
        except OSError:
            continue
        if held and alive(pid):
            found.append(pid)
    return found


class Job:
    """One Attempt on a host."""

    def __init__(self, machine: Machine, key: AttemptKey, handle: KeeperHandle) -> None:
        self.machine, self.host, self.key, self.handle = machine, machine.host, key, handle
        self.identity: Identity = handle.identity

    @property
    def keeper(self) -> int:
        return self.identity.pid

    def go(self) -> Job:
        self.handle.go()
        return self

    def wait(self) -> Receipt | None:
        """Wait for the keeper's end; the receipt."""

        async def ended() -> None:
            await asyncio.wait_for(self.handle.ended(), WITHIN_S)

        asyncio.run(ended())
        return self.host.receipt(self.key)

    def kill(self) -> Presence:
        return asyncio.run(self.host.kill(self.key, self.identity))

    def signal(self, name: str) -> int:
        return self.host.signal(self.key, self.identity, name)

    def presence(self) -> Presence:
        return self.host.presence(self.key, self.identity)

    def log(self) -> bytes:
        return self.log_path.read_bytes()

    @property
    def log_path(self) -> Path:
        return folder.log_path(self.machine.folder, self.key)

    def says(self, word: str) -> bytes:
        """Wait until the log holds ``word``; the whole log."""
        return eventually(lambda: log if word.encode() in (log := self.log()) else None)

    def command(self) -> int:
        """Wait for the recorded command's pid."""
        path = folder.pid_path(self.machine.folder, self.key)
        return eventually(lambda: folder.read_command(path))[0]


class Machine:
    """A host under ``tmp_path``; on leaving, every tree it started is killed and gone."""

    def __init__(self, tmp_path: Path, use_cgroup: bool = True, cap: int = 1 << 20, **more: Any) -> None:
        self.folder = tmp_path / "attempts"
        self.tmp = tmp_path
        self.host = LinuxHost(self.folder, cap, use_cgroup, **more)
        self.jobs: list[Job] = []

    def __enter__(self) -> Machine:
        return self

    def __exit__(self, *_: object) -> None:
        left = []
        for job in self.jobs:
            job.handle.abandon()
            if job.kill().state == "alive":
                left.append(job.identity)
            job.wait()
            job.handle.close()
            job.host.discard(job.key)
        assert not left

    def launch(
        self,
        command: Command,
        *,
        key: AttemptKey | None = None,
        scheduled_ms: int | None = None,
        fence: int = 7,
        **spec: Any,
    ) -> Job:
        """Start a keeper, without its go byte."""
        key = key or AttemptKey(str(uuid.uuid4()), "", 1)
        task = TaskSpec("t", command, **{"cwd": str(self.tmp), **spec})
        handle = self.host.launch(Launch(key, task, fence, scheduled_ms))
        job = Job(self, key, handle)
        self.jobs.append(job)
        return job

    def run(self, command: Command, **more: Any) -> Job:
        """Start a command."""
        return self.launch(command, **more).go()

    def output(self, command: Command, **more: Any) -> bytes:
        """Run a command to a good end; its output."""
        job = self.run(command, **more)
        receipt = job.wait()
        assert receipt == Receipt("ended", 0), (receipt, job.log())
        return job.log()


def read_all(log: Path, limit: int = 64 * 1024) -> tuple[bytes, list[tuple[int, int]]]:
    """Everything that is kept of a log, read as a client would; and the gaps."""
    data, gaps, at = b"", [], 0
    while True:
        chunk = joblog.read(log, at, limit)
        data += chunk.data
        if chunk.gap:
            gaps.append(chunk.gap)
        at = chunk.next_offset
        if chunk.end:
            return data, gaps
