"""Where Attempts' control groups are made: below our own, in a group that the server itself is in.

A keeper can enter a threaded group by itself only out of the same threaded subtree, so the server goes into the
subtree's top, once, before it starts any. That needs write access to our own group (root, or a delegated
subtree); where anything of it fails the server stays where it was, and everything works by ``/proc`` alone.
Source: cgroups(7); the kernel's admin-guide/cgroup-v2, "Threads" and "Delegation"; ADR 0017.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
from pathlib import Path
from typing import Any, Final

from qinglong.worker.linux import cgroup, launching

NAME: Final = "qinglong"
_PROBE_S: Final = 5.0
_ANOTHER_ACCOUNT: Final = 65_534
"""As root, keepers may run under any account; this number stands for all."""


def parent() -> str:
    """The folder in which groups are made, with this process in it; empty where that is impossible."""
    try:
        mounts, own = (
            Path("/proc/self/mountinfo").read_text("utf-8"),
            Path("/proc/self/cgroup").read_text("utf-8"),
        )
    except OSError:
        return ""
    base = own_group(mounts, own)
    if base is None:
        return ""
    # A server that was started by one, or from its terminal, is in such a group already.
    folder = base if os.path.basename(base) == NAME else f"{base}/{NAME}"  # noqa: PTH119
    return folder if _move_in(base, folder) else ""


def own_group(mountinfo: str, own: str) -> str | None:
    """Where our own v2 group is mounted: plain v2 or the ``unified`` tree beside v1."""
    path = next((line[3:] for line in own.splitlines() if line.startswith("0::")), None)
    if path is None or ".." in path:
        return None
    for line in mountinfo.splitlines():
        left, _, right = line.partition(" - ")
        if right.startswith("cgroup2 "):
            root, point = left.split(" ")[3:5]
            inside = path.removeprefix(root.rstrip("/"))
            return f"{point}/{inside}".replace("\\040", " ").replace("//", "/").rstrip("/")
    return None


def _move_in(base: str, folder: str) -> bool:
    """Try it all: a group is made, we move, a keeper's shell enters. False: nothing has changed."""
    fresh = moved = False
    try:
        with contextlib.suppress(FileExistsError):
            os.mkdir(folder)  # noqa: PTH102
            fresh = True
        probe = cgroup.make(folder, f".probe-{os.getpid()}")
        if probe is not None:
            try:
                if base != folder:
                    _move_to(folder)
                    moved = True
                if _can_enter(probe.entrance):
                    return True
            finally:
                os.close(probe.entrance)
                cgroup.remove(probe.folder)
    except (OSError, subprocess.SubprocessError):
        pass
    with contextlib.suppress(OSError):
        if moved:
            _move_to(base)
        if fresh:
            os.rmdir(folder)  # noqa: PTH106
    return False


def _move_to(folder: str) -> None:
    """Ourselves, with all threads; takes a grace period."""
    cgroup.write(f"{folder}/cgroup.procs", b"%d" % os.getpid())


def _can_enter(entrance: int) -> bool:
    """Would a keeper get in? Kernels before 5.16 ask for the rights of its own account, not for ours."""
    switch: dict[str, Any] = {}
    if os.geteuid() == 0:
        switch = {"user": _ANOTHER_ACCOUNT, "group": _ANOTHER_ACCOUNT, "extra_groups": []}
    done = subprocess.run(
        [*launching.SHELL, "-c", launching.ENTER],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=entrance,
        cwd="/",
        env={},
        timeout=_PROBE_S,
        check=False,
        **switch,
    )
    return done.returncode == 0
