"""Limits: a task's overlap and a project's concurrency groups, one gate per key (design section 5).

Every non-final Run occupies its gates, also one in retry_wait, lost or unreachable: "silent" frees nothing.
A held Run waits at exactly one gate and occupies those before it.
"""

from __future__ import annotations

import msgspec

from qinglong.domain.records import Gate, Run

OCCUPIES = 0
WAITS = 1


def overlap_key(task_id: str) -> str:
    """Key of a task's overlap gate."""
    return f"task:{task_id}"


def group_key(project: str, group: str) -> str:
    """Key of a concurrency group's gate."""
    return f"group:{project}:{group}"


def is_overlap(key: str) -> bool:
    """Whether the key is a task's overlap gate."""
    return key.startswith("task:")


def places(run: Run) -> tuple[tuple[str, int], ...]:
    """(gate key, OCCUPIES or WAITS) for each gate that this Run stands at."""
    if not run.gates or run.finished_ms is not None:
        return ()
    if not run.held_by:
        return tuple((key, OCCUPIES) for key in run.gates)
    found: list[tuple[str, int]] = []
    for key in run.gates:
        waits = is_overlap(key) == (run.held_by == "overlap")
        found.append((key, WAITS if waits else OCCUPIES))
        if waits:
            break
    return tuple(found)


def same_places(before: Run, after: Run) -> bool:
    """Whether a Run stands where it stood; cheaper than comparing places."""
    return before.held_by == after.held_by and (before.finished_ms is None) == (after.finished_ms is None)


def shift(gate: Gate, run_id: str, before: int | None, after: int | None) -> Gate:
    """The gate after one Run moved from ``before`` to ``after`` (``None``: not at this gate)."""
    if before == after:
        return gate
    occupants, waiting = gate.occupants, gate.waiting
    if before == OCCUPIES:
        occupants = tuple(other for other in occupants if other != run_id)
    if before == WAITS:
        waiting = tuple(other for other in waiting if other != run_id)
    if after == OCCUPIES:
        occupants = (*occupants, run_id)
    if after == WAITS:
        waiting = tuple(sorted((*waiting, run_id)))
    return msgspec.structs.replace(gate, occupants=occupants, waiting=waiting)


def first_closed(keys: tuple[str, ...], gates: dict[str, Gate]) -> Gate | None:
    """The first gate without room, in the order in which a Run passes them."""
    for key in keys:
        if gates[key].room <= 0:
            return gates[key]
    return None
