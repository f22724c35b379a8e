"""The Linux host: the worker's port to processes, made of keepers, ``/proc``, pidfds and control groups.

One object serves one worker process. Attempts live below one folder (``folder.py``); everything else is in the
kernel, so that another object, in a later process, sees the same. Source: design section 7.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
from pathlib import Path
from typing import Final

import msgspec

from qinglong.limits import MIB
from qinglong.worker.host import (
    AttemptKey,
    Identity,
    Launch,
    Presence,
    Receipt,
    SealedLog,
    Shortage,
    StartFailed,
    not_started,
)
from qinglong.worker.linux import (
    cgroup,
    environment,
    folder,
    grouping,
    handle,
    joblog,
    launching,
    procfs,
    stopping,
    tree,
)
from qinglong.worker.linux.handle import KeeperHandle
from qinglong.worker.linux.launching import Descriptors, Prepared

_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")
_PID_NS: Final = "/proc/self/ns/pid"
_INLINE_SEAL_BYTES: Final = MIB
"""Logs up to this length are sealed without a thread."""
_ORPHANS: Final = 1_024
"""Zombies that are released in one go (I10)."""


class LinuxHost:
    """See ``worker.host.Host``.

    ``root``: where Attempts' folders are made, created if missing. ``log_cap_bytes``: most of a log that is kept.
    ``use_cgroup``: make a control group for each Attempt where possible. ``proc``: the mount to look at.
    """

    def __init__(
        self, root: Path, log_cap_bytes: int, use_cgroup: bool = True, *, proc: str = procfs.PROC
    ) -> None:
        root.mkdir(parents=True, exist_ok=True)
        self._root = root.absolute()
        self._cap = log_cap_bytes
        self._proc = proc
        self._groups = grouping.parent() if use_cgroup else ""
        self._boot = (_BOOT_ID.read_text("ascii").strip(), os.readlink(_PID_NS))  # noqa: PTH115
        self._unreaped: set[int] = set()
        launching.stop_ignoring()

    def boot(self) -> tuple[str, str]:
        """(boot id, pid namespace); neither can change while this process lives."""
        return self._boot

    def launch(self, launch: Launch) -> KeeperHandle:
        """Start a keeper that waits for its go byte. Raises ``StartFailed`` or ``Shortage``; nothing is left then."""
        self._reap_abandoned()
        prepared = launching.prepare(launch)
        made = cgroup.make(self._groups, _group_name(launch.key)) if self._groups else None
        try:
            pid, pipe = self._spawn(launch.key, prepared, made)
            self._unreaped.add(pid)
            # From here on a failure closes the pipe, so the keeper ends and the command never ran.
            return self._hold(launch.key, prepared, pid, pipe, made)
        except (OSError, StartFailed, Shortage) as error:
            folder.forget(self._root, launch.key, log=True)
            if made is not None:
                cgroup.remove(made.folder)
            if isinstance(error, OSError):
                raise not_started("the attempt cannot be made ready", error) from None
            raise

    def _spawn(self, key: AttemptKey, prepared: Prepared, made: cgroup.Made | None) -> tuple[int, int]:
        """Files, go pipe, keeper; (pid, our end of the pipe)."""
        place = folder.run_folder(self._root, key)
        with contextlib.ExitStack() as stack:
            if made is not None:
                stack.callback(os.close, made.entrance)
            receipt = self._files(place, key, prepared.account.uid)
            stack.callback(os.close, receipt)
            read, write = os.pipe()
            stack.callback(os.close, read)
            descriptors = Descriptors(read, receipt, made.entrance if made else subprocess.DEVNULL)
            try:
                pid = launching.spawn(prepared, place, folder.mark(key), folder.stem(key), descriptors)
            except BaseException:
                os.close(write)
                raise
        return pid, write

    def _files(self, place: str, key: AttemptKey, uid: int) -> int:
        """Fresh files; the receipt. Only the log and the pid file are the account's: it cannot write a receipt."""
        log = folder.log_path(self._root, key)
        try:
            # Searchable for the account that runs the command: the keeper opens its files by relative name.
            os.mkdir(place, 0o711)  # noqa: PTH102
        except FileExistsError:
            joblog.hole_path(log).unlink(missing_ok=True)
        receipt = folder.receipt_path(self._root, key)
        folder.allocate(receipt, os.geteuid())
        folder.allocate(folder.pid_path(self._root, key), uid)
        os.close(folder.create(str(log), uid, 0o640))
        # Allocated without waiting for the disk; only the keeper's own line is written through.
        return os.open(receipt, os.O_WRONLY | os.O_DSYNC | os.O_CLOEXEC)

    def _hold(
        self, key: AttemptKey, prepared: Prepared, pid: int, pipe: int, made: cgroup.Made | None
    ) -> KeeperHandle:
        """Identify a keeper that was just started. It is our unreaped child, so its number is safe."""
        with contextlib.ExitStack() as stack:
            stack.callback(os.close, pipe)
            pidfd = os.pidfd_open(pid)
            stack.callback(os.close, pidfd)
            stat = procfs.read_stat(pid)
            if stat is None:
                raise ProcessLookupError(f"no process {pid}")
            group = made.folder if made is not None else ""
            identity = Identity(
                *self._boot, pid, stat.start_ticks, group, prepared.account.uid, os.getpid() == 1
            )
            stack.pop_all()
        return KeeperHandle(key, identity, pidfd, pipe=pipe, digests=prepared.digests, reap=self._reap)

    def _reap(self, pid: int) -> None:
        if pid not in self._unreaped:
            return
        with contextlib.suppress(ChildProcessError):
            if os.waitpid(pid, os.WNOHANG)[0] == 0:
                return
        self._unreaped.discard(pid)

    def _reap_abandoned(self) -> None:
        """Keepers whose end nobody awaited."""
        for pid in tuple(self._unreaped):
            self._reap(pid)

    def reap_orphans(self) -> int:
        """As pid 1: release what jobs' processes left to us by ending before their children; how many.

        To be called now and then, on the thread that launches. A keeper among them was held by its pidfd already.
        """
        count = 0
        with contextlib.suppress(ChildProcessError):
            while os.getpid() == 1 and count < _ORPHANS and os.waitpid(-1, os.WNOHANG)[0]:
                count += 1
        return count

    def reattach(self, key: AttemptKey, identity: Identity) -> KeeperHandle | None:
        """A handle on a keeper that an earlier worker process started; ``None`` if that keeper has ended."""
        return handle.reattach(key, identity, self._boot)

    def receipt(self, key: AttemptKey) -> Receipt | None:
        """The receipt; a torn or foreign file counts as none."""
        return folder.read_receipt(folder.receipt_path(self._root, key), folder.mark(key))

    def presence(self, key: AttemptKey, identity: Identity) -> Presence:
        """Look for the whole tree (``tree.py``)."""
        return tree.presence(self._target(key, identity), self._boot)

    def _target(self, key: AttemptKey, identity: Identity) -> tree.Target:
        command = folder.read_command(folder.pid_path(self._root, key))
        if identity.cgroup and os.path.basename(identity.cgroup) != _group_name(key):  # noqa: PTH119
            # Not a group of ours, whatever the record says: nothing is read from it, or killed in it.
            identity = msgspec.structs.replace(identity, cgroup="")
        return tree.Target(identity, environment.marks(key), command, self._proc)

    def signal(self, key: AttemptKey, identity: Identity, name: str) -> int:
        """Send the signal to the process group; raises ``ValueError`` if there is no signal of that name."""
        number = stopping.number(name)
        if (identity.boot_id, identity.pid_ns) != self._boot:
            return 0
        return stopping.signal_group(self._target(key, identity), number)

    async def kill(self, key: AttemptKey, identity: Identity) -> Presence:
        """SIGKILL the tree, keeper last; what was found at the end. Bounded to 10 s."""
        return await stopping.kill(
            lambda: self._target(key, identity),
            lambda: self.presence(key, identity),
        )

    def trim_log(self, key: AttemptKey) -> int:
        """Apply the cap to a growing log; its length so far in bytes."""
        return joblog.trim(folder.log_path(self._root, key), self._cap)

    async def seal_log(self, key: AttemptKey) -> SealedLog:
        """Apply the cap for good and digest what is kept; large logs in a thread."""
        log = folder.log_path(self._root, key)
        if joblog.length(log) <= _INLINE_SEAL_BYTES:
            return joblog.seal(log, self._cap)
        return await asyncio.to_thread(joblog.seal, log, self._cap)

    def discard(self, key: AttemptKey) -> None:
        """Remove receipt, pid file and control group; the log stays."""
        folder.forget(self._root, key, log=False)
        if self._groups:
            cgroup.remove(f"{self._groups}/{_group_name(key)}")


def _group_name(key: AttemptKey) -> str:
    return folder.mark(key).replace(" ", ".")
