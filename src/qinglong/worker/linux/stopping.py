"""Sending signals to a tree, and killing it. Every pid is verified before it is signalled.

A signal goes through a pidfd that was opened *before* the start ticks were compared (pidfd_open(2)), so it can
never reach a stranger that was given the number meanwhile.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncIterator, Callable, Iterable
from typing import Final

from qinglong.worker.host import Presence
from qinglong.worker.linux import cgroup, procfs
from qinglong.worker.linux.procfs import Stat
from qinglong.worker.linux.tree import Target, look

KILL_S: Final = 10.0
"""Bound of :func:`kill`."""
_KEEPER_S: Final = 4.0
"""How long a keeper whose command was killed may take to write its receipt before it is killed too."""
_PAUSES_S: Final = (0.002, 0.005, 0.01, 0.02)
"""Pauses between rounds; the last one repeats."""
_PLAIN_ROUNDS: Final = 2
"""Rounds before the control group is made to stand still; nearly always they are enough."""
_STILL_LOOKS: Final = 25
"""How often is looked whether all of it stands still, 2 ms apart; what sleeps in the kernel may not for long."""


def number(name: str) -> int:
    """The signal of that name; raises ``ValueError``."""
    try:
        return signal.Signals[name].value
    except KeyError:
        raise ValueError(f"no signal is called {name!r}") from None


def send(stat: Stat, signum: int, proc: str = procfs.PROC) -> bool:
    """Signal exactly this process; False if it has ended, or may not be signalled."""
    if stat.pid == os.getpid():
        return False
    try:
        fd = os.pidfd_open(stat.pid)
    except OSError:
        return False
    try:
        now = procfs.read_stat(stat.pid, proc)
        if now is None or now.start_ticks != stat.start_ticks:
            return False
        signal.pidfd_send_signal(fd, signum)
    except OSError:
        return False
    finally:
        os.close(fd)
    return True


def signal_group(target: Target, signum: int) -> int:
    """Signal the command's process group, its session and the command itself; how many it may have reached.

    At once to the whole group while the keeper lives and traps it, so that no fork slips through; one by one
    otherwise. The keeper is not counted; one that still waits for its go byte ends by it.
    """
    found = look(target)
    group = target.identity.pid
    chosen = [
        stat for stat in found.members if group in (stat.pgrp, stat.session) or _is_command(stat, target)
    ]
    if found.keeper is None or not procfs.catches(found.keeper.pid, signum, target.proc):
        return _send_all(chosen, signum)
    inside = [stat for stat in chosen if stat.pgrp == group]
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signum)
    return len(inside) + _send_all((stat for stat in chosen if stat.pgrp != group), signum)


def _is_command(stat: Stat, target: Target) -> bool:
    return target.command == (stat.pid, stat.start_ticks)


def _send_all(stats: Iterable[Stat], signum: int) -> int:
    return sum(send(stat, signum) for stat in stats)


async def kill(target: Callable[[], Target], presence: Callable[[], Presence]) -> Presence:
    """SIGKILL all but the keeper, round after round, then also the keeper; until presence is not alive.

    The keeper comes last so that it writes its receipt. Bounded to ``KILL_S``; what cannot be killed (another
    user's, stuck in the kernel) is in the answer. Both arguments are asked anew in each round.
    """
    loop = asyncio.get_running_loop()
    start = loop.time()
    turn, now = 0, presence()
    while now.state == "alive" and loop.time() - start < KILL_S:
        aim, keeper_too = target(), loop.time() - start > _KEEPER_S
        async with _still(aim.identity.cgroup if turn >= _PLAIN_ROUNDS else ""):
            _round(aim, keeper_too=keeper_too)
        await asyncio.sleep(_PAUSES_S[min(turn, len(_PAUSES_S) - 1)])
        turn, now = turn + 1, presence()
    return now


@contextlib.asynccontextmanager
async def _still(group: str) -> AsyncIterator[None]:
    """Within it nothing in the group forks: whoever forks faster than it is killed is met standing still.

    The keeper stands still as well, and writes its receipt afterwards. Should this process end in between, the
    next one finds the stop in its journal and goes on with it.
    """
    if not group or not cgroup.freeze(group, True):
        yield
        return
    try:
        for _ in range(_STILL_LOOKS):
            if cgroup.frozen(group) is not False:
                break
            await asyncio.sleep(_PAUSES_S[0])
        yield
    finally:
        cgroup.freeze(group, False)


def _round(target: Target, *, keeper_too: bool) -> None:
    if target.identity.cgroup:
        cgroup.kill(target.identity.cgroup, spare=0 if keeper_too else target.identity.pid)
    found = look(target)
    _send_all(found.members, signal.SIGKILL)
    if found.keeper is not None:
        _end_keeper(found.keeper, target, by_force=keeper_too)


def _end_keeper(keeper: Stat, target: Target, *, by_force: bool) -> None:
    """A keeper that still waits for its go byte ends by SIGTERM, with a receipt; any other takes no notice."""
    if by_force:
        send(keeper, signal.SIGKILL)
    elif procfs.catches(keeper.pid, signal.SIGTERM, target.proc):
        send(keeper, signal.SIGTERM)
