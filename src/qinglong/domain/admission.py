"""Admission: from an intention (an occurrence, a person) to a durable Run with its first Attempt.

Pure. Decides overlap under the task's gate and resolves the policy that governs the Run for good (D3).
"""

from __future__ import annotations

from functools import lru_cache

import msgspec

from qinglong.domain import placement
from qinglong.domain.change import Aggregate, Change, Draft, Refusal, event
from qinglong.domain.definitions import TaskSpec
from qinglong.domain.gates import first_closed, group_key, is_overlap, overlap_key
from qinglong.domain.records import Attempt, Gate, Policy, Run, Task
from qinglong.limits import OVERLAP_QUEUE


class Admission(msgspec.Struct, frozen=True):
    """One wish for a Run."""

    run_id: str
    task: Task
    spec: TaskSpec
    cause: str
    trigger_id: str | None = None
    occurrence: str | None = None
    scheduled_ms: int | None = None
    allow_overlap: bool = False
    """An explicit override: it starts beside an older Run of its task, and still counts at the gate."""
    by: str = ""
    priority: int = 0


def gate_keys(task: Task, spec: TaskSpec) -> tuple[str, ...]:
    """The gates that a Run of this revision stands at, overlap first."""
    group = group_key(task.project, spec.concurrency) if spec.concurrency else ""
    return _keys(task.task_id, spec.overlap.kind != "allow", group)


@lru_cache(maxsize=4096)
def _keys(task_id: str, overlap: bool, group: str) -> tuple[str, ...]:
    return (*((overlap_key(task_id),) if overlap else ()), *((group,) if group else ()))


def admit(draft: Draft, wish: Admission) -> Change | Refusal:
    """The Run, queued or held, or why not (see :func:`refusal`).

    Under ``replace`` the caller cancels the older Runs in the same transaction; see :func:`replaced`.
    """
    why_not = refusal(draft, wish)
    if why_not is not None:
        return why_not
    gates = gate_keys(wish.task, wish.spec)
    closed = first_closed(_binding(gates, wish), draft.gates)
    held_by = ""
    if closed is not None:
        held_by = "overlap" if is_overlap(closed.key) else "concurrency"
    return _born(draft.now_ms, wish, gates, held_by, closed)


def refusal(draft: Draft, wish: Admission) -> Refusal | None:
    """Why there can be no such Run: ``overlap``, ``queue_full``, ``group_full``; ``None`` if there can."""
    gates = _binding(gate_keys(wish.task, wish.spec), wish)
    overlap = next((draft.gates[key] for key in gates if is_overlap(key)), None)
    why_not = None if overlap is None else _overlap_refusal(overlap, wish.spec)
    if why_not is not None:
        return why_not
    closed = first_closed(tuple(key for key in gates if not is_overlap(key)), draft.gates)
    if closed is not None and len(closed.waiting) >= OVERLAP_QUEUE:
        return Refusal("group_full", f"{len(closed.waiting)} runs already wait at {closed.key}")
    return None


def _binding(gates: tuple[str, ...], wish: Admission) -> tuple[str, ...]:
    """The gates that can hold this Run: an override passes its task's overlap, never a concurrency group."""
    if not wish.allow_overlap:
        return gates
    return tuple(key for key in gates if not (wish.allow_overlap and is_overlap(key)))


def _overlap_refusal(gate: Gate, spec: TaskSpec) -> Refusal | None:
    if gate.room > 0:
        return None
    busy = gate.occupants[0]
    if spec.overlap.kind == "skip":
        return Refusal("overlap", f"run {busy} of this task is not final")
    if spec.overlap.kind == "queue" and len(gate.waiting) >= spec.overlap.size:
        return Refusal("queue_full", f"run {busy} is not final and {len(gate.waiting)} wait already")
    return None


def _born(now_ms: int, wish: Admission, gates: tuple[str, ...], held_by: str, closed: Gate | None) -> Change:
    spec, task = wish.spec, wish.task
    run = Run(
        run_id=wish.run_id,
        project=task.project,
        task_id=task.task_id,
        task=task.name,
        revision=task.revision,
        cause=wish.cause,
        trigger_id=wish.trigger_id,
        occurrence=wish.occurrence,
        scheduled_ms=wish.scheduled_ms,
        created_ms=now_ms,
        policy=Policy(
            safety=spec.safety,
            retry=spec.retry,
            overlap=spec.overlap,
            on_lease_loss=spec.on_lease_loss,
            timeout_ms=spec.timeout_ms,
        ),
        gates=gates,
        priority=wish.priority,
        placement=placement.key(spec.placement),
        start_by_ms=_after(now_ms, spec.start_within_ms),
        deadline_ms=_after(now_ms, spec.deadline_ms),
        state="created" if held_by else "queued",
        version=0,
        held_by=held_by,
    )
    late = None
    if wish.scheduled_ms is not None and now_ms - wish.scheduled_ms >= 1000:
        late = now_ms - wish.scheduled_ms
    run, admitted = event(
        run,
        now_ms,
        "admitted",
        task=task.name,
        revision=task.revision,
        cause=wish.cause,
        scheduled_ms=wish.scheduled_ms,
        late_ms=late,
        by=wish.by or None,
        override=True if wish.allow_overlap else None,
        held_by=held_by or None,
        gate=closed.key if closed else None,
        waits_for=closed.occupants[0] if closed and closed.occupants else None,
    )
    attempt = Attempt(run.run_id, "", 1, created_ms=now_ms)
    return Change(Aggregate(run, attempt, None), (admitted,))


def _after(now_ms: int, delay_ms: int | None) -> int | None:
    return None if delay_ms is None else now_ms + delay_ms


def replaced(draft: Draft, wish: Admission) -> list[Aggregate]:
    """Older Runs of the task that ``overlap: replace`` asks to end, before the new one is admitted."""
    if wish.spec.overlap.kind != "replace" or wish.allow_overlap:
        return []
    gate = draft.gates[overlap_key(wish.task.task_id)]
    older = (draft.get(run_id) for run_id in (*gate.waiting, *gate.occupants))
    return [found for found in older if found is not None]


def promote(draft: Draft) -> list[Change]:
    """Runs that can go on because a place became free, oldest first, folded into the draft.

    Only Runs that were loaded with their gate can be promoted; the retry step sweeps the rest.
    """
    changes: list[Change] = []
    for key in sorted(draft.freed):
        for run_id in draft.gates[key].waiting:
            if draft.gates[key].room <= 0:
                break
            found = draft.get(run_id)
            if found is None or any(other not in draft.gates for other in found.run.gates):
                continue
            change = pass_gate(draft, found, key)
            draft.apply(change)
            changes.append(change)
    draft.freed.clear()
    return changes


def pass_gate(draft: Draft, found: Aggregate, key: str) -> Change:
    """The held Run passes gate ``key``: on to the next gate, or into the queue."""
    run = found.run
    rest = run.gates[run.gates.index(key) + 1 :]
    closed = first_closed(rest, draft.gates)
    if closed is not None:
        run = msgspec.structs.replace(run, held_by="concurrency")
        run, told = event(run, draft.now_ms, "held", held_by="concurrency", gate=closed.key)
        return Change(Aggregate(run, found.attempt, found.lease), (told,))
    run = msgspec.structs.replace(run, state="queued", held_by="")
    run, told = event(run, draft.now_ms, "released", gate=key)
    return Change(Aggregate(run, found.attempt, found.lease), (told,))
