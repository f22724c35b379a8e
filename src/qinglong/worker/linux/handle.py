"""One keeper, held by a pidfd: woken by the event loop, no thread, no polling, no SIGCHLD."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable

from qinglong.worker.host import AttemptKey, Identity
from qinglong.worker.linux import procfs

GO = b"\n"
"""The go byte: the empty line that the keeper's ``read`` waits for."""


class KeeperHandle:
    """See ``worker.host.Handle``. Owns both descriptors; ``reap`` is called once the keeper has ended."""

    def __init__(
        self,
        key: AttemptKey,
        identity: Identity,
        pidfd: int,
        *,
        pipe: int | None = None,
        digests: dict[str, str] | None = None,
        reap: Callable[[int], None] | None = None,
    ) -> None:
        self._key = key
        self._identity = identity
        self._pidfd: int | None = pidfd
        self._pipe = pipe
        self._digests = digests or {}
        self._reap = reap

    @property
    def key(self) -> AttemptKey:
        return self._key

    @property
    def identity(self) -> Identity:
        return self._identity

    @property
    def digests(self) -> dict[str, str]:
        """Path to hex SHA-256 of what the launch read."""
        return dict(self._digests)

    def go(self) -> None:
        """Let the command run.

        A keeper that has ended meanwhile is no error: ``ended`` and its receipt say it.
        Raises ``RuntimeError`` if there is nothing to let go: sent before, abandoned, re-adopted.
        """
        if self._pipe is None:
            raise RuntimeError("this keeper waits for no go byte of ours")
        with contextlib.suppress(BrokenPipeError):
            os.write(self._pipe, GO)
        self.abandon()

    def abandon(self) -> None:
        """Close the pipe; without a go byte before, the keeper ends and the command never runs."""
        if self._pipe is not None:
            os.close(self._pipe)
            self._pipe = None

    async def ended(self) -> None:
        """Return when the keeper has ended; any number of tasks may wait. Raises ``RuntimeError`` when closed."""
        if self._pidfd is None:
            raise RuntimeError("the handle is closed")
        loop = asyncio.get_running_loop()
        done = loop.create_future()
        # A descriptor of its own: an event loop keeps one reader for each, and another task may wait as well.
        pidfd = os.dup(self._pidfd)
        try:
            loop.add_reader(pidfd, _resolve, done)
            try:
                await done
            finally:
                loop.remove_reader(pidfd)
        finally:
            os.close(pidfd)
        self._reaped()

    def _reaped(self) -> None:
        if self._reap is not None:
            self._reap(self._identity.pid)
            self._reap = None

    def close(self) -> None:
        """Release the descriptors."""
        self.abandon()
        if self._pidfd is not None:
            os.close(self._pidfd)
            self._pidfd = None


def _resolve(done: asyncio.Future[None]) -> None:
    if not done.done():
        done.set_result(None)


def reattach(key: AttemptKey, identity: Identity, boot: tuple[str, str]) -> KeeperHandle | None:
    """A handle on a keeper of an earlier worker process; ``None`` if it has ended or is out of sight."""
    if (identity.boot_id, identity.pid_ns) != boot:
        return None
    try:
        pidfd = os.pidfd_open(identity.pid)
    except OSError:
        return None
    # Compared after the pidfd is held: from here on the number cannot come to mean another process.
    stat = procfs.read_stat(identity.pid)
    if stat is None or not stat.alive or stat.start_ticks != identity.start_ticks:
        os.close(pidfd)
        return None
    return KeeperHandle(key, identity, pidfd)
