"""The port to the machine that executes commands: processes, files of an Attempt, clocks of the boot.

The agent decides *when*; a host knows *how*. The Linux one is ``worker/linux``; a simulator brings its own.
Source: design section 7.
"""

from __future__ import annotations

import errno
from typing import Literal, NamedTuple, Protocol

import msgspec

from qinglong.domain.definitions import TaskSpec


class AttemptKey(NamedTuple):
    """Names one Attempt: its folder, its log and the marks in its processes' environment."""

    run_id: str
    step: str
    number: int


class Launch(msgspec.Struct, frozen=True):
    """Everything needed to start one Attempt's command."""

    key: AttemptKey
    spec: TaskSpec
    fence: int
    """``QL_FENCE``: from one ledger-wide counter that never goes back."""
    scheduled_ms: int | None
    """The occurrence's moment in UTC ms, ``None`` when started by hand; ``QL_SCHEDULED_AT`` is its ISO form."""


class Identity(msgspec.Struct, frozen=True):
    """Who the keeper is, for ever: a pid alone is never trusted, also not by its own worker."""

    boot_id: str
    pid_ns: str
    """Inode of the pid namespace, as ``pid:[4026531836]``."""
    pid: int
    """The keeper's pid; it leads its own session and process group, so this is the pgid too."""
    start_ticks: int
    """Field 22 of ``/proc/PID/stat`` (proc(5))."""
    cgroup: str = ""
    """Folder of the Attempt's own v2 control group; empty where none could be made."""
    uid: int = 0
    """The account that the command runs under."""
    worker_is_init: bool = False
    """Its worker was pid 1 of that namespace: when the worker ends, the kernel ends everything in it."""


class Receipt(msgspec.Struct, frozen=True):
    """The keeper's word on how the command ended, durable before the keeper exits."""

    kind: Literal["ended", "not_begun"]
    exit_code: int | None = None
    """As the command returned it, ``None`` when a signal ended it."""
    signal: int | None = None


class Presence(msgspec.Struct, frozen=True):
    """Is anything of the Attempt's process tree there? ``unverifiable`` is not ``gone`` (I3, I12)."""

    state: Literal["alive", "gone", "unverifiable"]
    pids: tuple[int, ...] = ()
    detail: str = ""


class SealedLog(msgspec.Struct, frozen=True):
    """What is kept of an Attempt's output after its end."""

    length: int
    """Bytes written by the command, in total."""
    dropped: int
    """Bytes cut out between head and tail because of the cap."""
    digest: str
    """Hex SHA-256 of the kept bytes: the head, then the tail."""


class Handle(Protocol):
    """One keeper, held by a pidfd."""

    @property
    def key(self) -> AttemptKey: ...

    @property
    def identity(self) -> Identity: ...

    @property
    def digests(self) -> dict[str, str]:
        """Path to hex SHA-256 of every script and environment file that the launch read; empty if re-adopted."""
        ...

    def go(self) -> None:
        """Send the go byte: from here on the command may run. Only after the identity is durable."""
        ...

    def abandon(self) -> None:
        """Close the pipe without the go byte: the keeper ends with a ``not_begun`` receipt."""
        ...

    async def ended(self) -> None:
        """Return when the keeper has ended (a zombie has ended)."""
        ...

    def close(self) -> None:
        """Release the descriptors; never touches the processes."""
        ...


class StartFailed(Exception):
    """The command could not be started; nothing of it ran. ``reason`` is for people."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Shortage(Exception):
    """The machine lacks what a start takes (descriptors, memory, processes, disk): nothing ran, later it may."""


_SHORT = frozenset(
    {errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN, errno.ENOSPC, errno.EDQUOT, errno.ENOBUFS}
)


def not_started(what: str, error: Exception) -> StartFailed | Shortage:
    """Why a start failed: for want of something that the machine may have later, or for good."""
    if not isinstance(error, OSError):
        return StartFailed(f"{what}: {error}")
    reason = f"{what}: {error.strerror or error}"
    return Shortage(reason) if error.errno in _SHORT else StartFailed(reason)


class Host(Protocol):
    """The machine. Calls are short (milliseconds) unless they are ``async``."""

    def boot(self) -> tuple[str, str]:
        """(boot id, pid namespace) of the machine as it is now."""
        ...

    def launch(self, launch: Launch) -> Handle:
        """Start the keeper, waiting for its go byte.

        Raises :class:`StartFailed` or :class:`Shortage`; nothing is left behind then.
        """
        ...

    def reattach(self, key: AttemptKey, identity: Identity) -> Handle | None:
        """A handle on a keeper that an earlier worker process started; ``None`` if that keeper has ended."""
        ...

    def receipt(self, key: AttemptKey) -> Receipt | None:
        """The receipt, if the keeper wrote one; a torn or foreign file counts as none."""
        ...

    def presence(self, key: AttemptKey, identity: Identity) -> Presence:
        """Look for the whole tree: keeper, command, process group, control group, carriers of the id."""
        ...

    def signal(self, key: AttemptKey, identity: Identity, name: str) -> int:
        """Send ``name`` (such as ``SIGTERM``) to the process group; how many processes it may have reached."""
        ...

    async def kill(self, key: AttemptKey, identity: Identity) -> Presence:
        """SIGKILL the tree, keeper last, until nothing is left; bounded to 10 s; what was found at the end."""
        ...

    def trim_log(self, key: AttemptKey) -> int:
        """Apply the cap to a growing log; its length so far in bytes."""
        ...

    async def seal_log(self, key: AttemptKey) -> SealedLog:
        """Apply the cap for good and digest what is kept."""
        ...

    def discard(self, key: AttemptKey) -> None:
        """Remove what only the execution needed (receipt, pid); the log stays."""
        ...
