"""The process tree of one Attempt: who belongs to it, and whether it is gone (I3, I12).

A process belongs to the tree if it is the keeper or the recorded command, is in the keeper's group or session,
in the Attempt's control group, carries the Attempt's marks in its environment, or descends from one that does.
A pid counts only with its start ticks. Names and command lines are never looked at. Source: design section 7.
"""

from __future__ import annotations

import os
from typing import Final, NamedTuple

from qinglong.worker.host import Identity, Presence
from qinglong.worker.linux import cgroup, procfs
from qinglong.worker.linux.procfs import PROC, Stat

_LISTINGS: Final = 16
"""Listings of ``/proc`` in one look before it is given up as never still (I10)."""
_PIDS_SHOWN: Final = 64

INITIAL_PID_NS: Final = "pid:[4026531836]"
"""The kernel's first pid namespace always has this inode (PROC_PID_INIT_INO in include/linux/proc_ns.h)."""


class Target(NamedTuple):
    """What is looked for. ``command``: the recorded command's pid and start ticks, if it was ever begun."""

    identity: Identity
    marks: tuple[bytes, ...]
    command: tuple[int, int] | None
    proc: str = PROC


class Found(NamedTuple):
    """The live processes of the tree; ``members`` are all but the keeper.

    ``unreadable``: processes of the Attempt's user that may belong to it. ``settled``: nothing new came up
    after the last process was read, so that no chain of short-lived children slipped through.
    """

    keeper: Stat | None
    members: tuple[Stat, ...]
    unreadable: tuple[int, ...]
    settled: bool


def presence(target: Target, boot: tuple[str, str]) -> Presence:
    """Is anything of the tree there, on this machine as ``boot`` (boot id, pid namespace) shows it now?"""
    identity = target.identity
    if identity.boot_id != boot[0]:
        return _other_boot(identity)
    if identity.pid_ns != boot[1]:
        if identity.worker_is_init:
            # Whoever asks holds the data folder's lock, so that worker is gone, and with it its namespace
            # (pid_namespaces(7): the kernel kills every process in it when its pid 1 ends).
            return Presence("gone", detail="its pid namespace ended with its worker")
        return Presence("unverifiable", detail=f"it ran in another pid namespace, {identity.pid_ns}")
    empty = cgroup.populated(identity.cgroup) is False if identity.cgroup else False
    if empty and _nothing_known_is_left(target):
        return Presence("gone", detail="control group empty")
    return _judge(look(target), identity)


def _other_boot(identity: Identity) -> Presence:
    """Another boot proves the end of what ran on the machine itself, never of what ran in a container.

    A container can be moved with its volume while the old one goes on elsewhere (design section 7).
    """
    if identity.pid_ns == INITIAL_PID_NS:
        return Presence("gone", detail="boot id changed")
    return Presence("unverifiable", detail="boot id changed, but it ran in a container, which can be moved")


def _judge(found: Found, identity: Identity) -> Presence:
    pids = ([found.keeper.pid] if found.keeper else []) + sorted(stat.pid for stat in found.members)
    if pids:
        what = "keeper is running" if found.keeper else "keeper is gone"
        return Presence("alive", tuple(pids[:_PIDS_SHOWN]), f"{what}; {len(found.members)} other processes")
    answer = cgroup.populated(identity.cgroup) if identity.cgroup else None
    if answer:
        return Presence("alive", detail="control group has processes")
    if answer is False:
        return Presence("gone", detail="control group empty")
    if found.unreadable:
        shown = found.unreadable[:_PIDS_SHOWN]
        return Presence("unverifiable", shown, f"{len(found.unreadable)} environments cannot be read")
    if not found.settled:
        return Presence(
            "unverifiable", detail="the processes of this machine cannot be listed, or never stand still"
        )
    return Presence("gone", detail="no process carries the id")


def _nothing_known_is_left(target: Target) -> bool:
    """The cheap half of a "gone" when the control group is empty: keeper, command and process group."""
    identity, command = target.identity, target.command
    if _is(identity.pid, identity.start_ticks, target.proc):
        return False
    if command is not None and _is(*command, target.proc):
        return False
    try:
        os.killpg(identity.pid, 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    return False


def _is(pid: int, start_ticks: int, proc: str) -> bool:
    stat = procfs.read_stat(pid, proc)
    return stat is not None and stat.alive and stat.start_ticks == start_ticks


def look(target: Target) -> Found:
    """One pass over ``/proc``: about 10 µs for each process, more for those younger than the keeper.

    A process older than the keeper cannot descend from it and is skipped, whatever hides its environment.
    The list is read again until it shows nothing new: a child that was forked behind the reader's back is
    then seen, even if its parent was gone before it could be read.
    """
    search = _Search(target)
    seen: set[int] = set()
    for _ in range(_LISTINGS):
        try:
            fresh = procfs.pids(target.proc) - seen
        except OSError:
            break
        if not fresh:
            return search.found(settled=True)
        for pid in sorted(fresh):
            search.examine(pid)
        seen |= fresh
    return search.found(settled=False)


class _Search:
    """The state of one look."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._young: dict[int, Stat] = {}
        self._ours: dict[int, Stat] = {}
        self._unreadable: list[int] = []
        identity = target.identity
        self._grouped = cgroup.members(identity.cgroup, target.proc) if identity.cgroup else frozenset()
        leader = procfs.read_stat(identity.pid, target.proc)
        # A number is not given to a new process while it still names a group or session (pid_namespaces(7) aside),
        # so a stranger under the keeper's number means that keeper's group and session have ended.
        self._group_is_ours = leader is None or leader.start_ticks == identity.start_ticks

    def examine(self, pid: int) -> None:
        stat = procfs.read_stat(pid, self._target.proc)
        if stat is None or stat.kernel or not stat.alive:
            return
        if stat.start_ticks < self._target.identity.start_ticks:
            return
        self._young[pid] = stat
        if self._known(stat):
            self._ours[pid] = stat
            return
        answer = procfs.carries(stat, self._target.marks, self._target.proc)
        if answer == "yes":
            self._ours[pid] = stat
        elif answer == "unreadable" and procfs.belongs_to(pid, self._target.identity.uid, self._target.proc):
            self._unreadable.append(pid)

    def _known(self, stat: Stat) -> bool:
        identity = self._target.identity
        if stat.pid == identity.pid:
            return stat.start_ticks == identity.start_ticks
        if self._group_is_ours and identity.pid in (stat.pgrp, stat.session):
            return True
        if stat.pid in self._grouped:
            return True
        # The pid file belongs to the job's user, who may have written anything: only that user's processes count.
        return self._target.command == (stat.pid, stat.start_ticks) and procfs.belongs_to(
            stat.pid, identity.uid, self._target.proc
        )

    def _add_descendants(self) -> None:
        more = True
        while more:
            more = False
            for pid, stat in self._young.items():
                if pid not in self._ours and stat.ppid in self._ours:
                    self._ours[pid] = stat
                    more = True

    def found(self, *, settled: bool) -> Found:
        self._add_descendants()
        keeper = self._ours.get(self._target.identity.pid)
        members = tuple(stat for stat in self._ours.values() if stat is not keeper)
        unreadable = tuple(pid for pid in self._unreadable if pid not in self._ours)
        return Found(keeper, members, unreadable, settled)
