"""Load what a transaction's keys name into a Draft. Reads only; runs on the writer's connection."""

from __future__ import annotations

import apsw

from qinglong.domain import definitions
from qinglong.domain.admission import gate_keys as gates_of_revision
from qinglong.domain.change import Aggregate, Draft
from qinglong.domain.gates import OCCUPIES, WAITS, overlap_key
from qinglong.domain.records import Evidence, Gate, Session, Task
from qinglong.errors import Damaged
from qinglong.ledger.port import Keys
from qinglong.ledger.sqlite import rows, statements
from qinglong.limits import OVERLAP_QUEUE

MEMBERS = OVERLAP_QUEUE + 64
"""Most Runs of one gate that are loaded: its occupants, and as many as may wait."""


def load(db: apsw.Connection, keys: Keys, now_ms: int) -> Draft:
    """A Draft with the named records as they are. Raises ``Damaged`` for a Run without its Attempt."""
    aggregates: dict[str, Aggregate] = {}
    for run_id in keys.runs:
        _add(db, aggregates, run_id)
    gate_keys = set(keys.gates)
    wanted: dict[str, int] = {}
    if keys.frees:
        for found in list(aggregates.values()):
            for key in found.run.gates:
                wanted[key] = wanted.get(key, 0) + 1
    draft = Draft(now_ms, aggregates, {}, _session(db, keys.worker) if keys.worker else None)
    for trigger_id in keys.triggers:
        row = statements.row(db, "trigger/get", (trigger_id,))
        if row is not None:
            draft.triggers[trigger_id] = rows.trigger_of(row)
    tasks = {*keys.tasks, *(trigger.task_id for trigger in draft.triggers.values())}
    for task_id in sorted(tasks):
        row = statements.row(db, "task/get", (task_id,))
        if row is not None:
            draft.tasks[task_id] = (rows.task_of(row[:-1]), definitions.decode_cached(row[-1]))
    if keys.triggers or keys.tasks:
        gate_keys.update(_gates_of(draft))
    members = {key for key in gate_keys if keys.members or _replaces(draft, key)}
    for key in sorted(gate_keys | wanted.keys()):
        draft.gates[key] = _gate(db, key)
        for run_id in _of_interest(draft.gates[key], key in members, wanted.get(key, 0)):
            _add(db, aggregates, run_id)
    if keys.frees or members:
        _second_gates(db, draft, aggregates)
    draft.aggregates = dict(aggregates)
    if keys.evidence:
        draft.evidence = {run_id: _evidence(db, run_id) for run_id in keys.runs}
    if keys.run_key is not None:
        draft.run_key = statements.row(db, "run_key/get", keys.run_key)
    if keys.project:
        _definitions(db, draft, keys.project)
    for trigger_id, key in keys.occurrences:
        if statements.row(db, "occurrence/exists", (trigger_id, key)) is not None:
            draft.occurred.add((trigger_id, key))
    if keys.fences:
        counter = statements.row(db, "counter/get")
        draft.fence = 0 if counter is None else counter[0]
    return draft


def _gates_of(draft: Draft) -> set[str]:
    return {key for task, spec in draft.tasks.values() for key in gates_of_revision(task, spec)}


def _replaces(draft: Draft, key: str) -> bool:
    return any(
        overlap_key(task.task_id) == key and spec.overlap.kind == "replace"
        for task, spec in draft.tasks.values()
    )


def _add(db: apsw.Connection, aggregates: dict[str, Aggregate], run_id: str) -> None:
    if run_id in aggregates:
        return
    row = statements.row(db, "run/get", (run_id,))
    if row is None:
        return
    run = rows.run_of(row)
    attempt = statements.row(db, "attempt/get", (run_id, run.attempt))
    if attempt is None:
        raise Damaged("attempt_missing", f"run {run_id} has no attempt {run.attempt}")
    lease = statements.row(db, "lease/get", (run_id, attempt[1], run.attempt))
    aggregates[run_id] = Aggregate(
        run, rows.attempt_of(attempt), None if lease is None else rows.lease_of(lease)
    )


def _gate(db: apsw.Connection, key: str) -> Gate:
    capacity = statements.row(db, "limit/get", (key,))
    occupants = statements.rows(db, "place/at", (key, OCCUPIES, MEMBERS))
    waiting = statements.rows(db, "place/at", (key, WAITS, MEMBERS))
    return Gate(
        key,
        1 if capacity is None else capacity[0],
        tuple(row[0] for row in occupants),
        tuple(row[0] for row in waiting),
    )


def _of_interest(gate: Gate, members: bool, leaving: int) -> tuple[str, ...]:
    """Runs of a gate to load: everyone for ``replace``, else as many waiters as could be promoted."""
    if members:
        return (*gate.occupants, *gate.waiting)
    return gate.waiting[: max(leaving, 0) + max(gate.room, 0)] if leaving else ()


def _second_gates(db: apsw.Connection, draft: Draft, aggregates: dict[str, Aggregate]) -> None:
    """Gates that a promoted Run passes next (a task's Runs may stand at groups of several revisions)."""
    for found in list(aggregates.values()):
        for key in found.run.gates:
            if key not in draft.gates:
                draft.gates[key] = _gate(db, key)


def _session(db: apsw.Connection, worker: str) -> Session | None:
    row = statements.row(db, "session/get", (worker,))
    return None if row is None else rows.session_of(row)


def _evidence(db: apsw.Connection, run_id: str) -> tuple[Evidence, ...]:
    return tuple(rows.evidence_of(row) for row in statements.rows(db, "evidence/list", (run_id,)))


def _definitions(db: apsw.Connection, draft: Draft, project: str) -> None:
    for row in statements.rows(db, "task/of_project", (project,)):
        task: Task = rows.task_of(row[:-1])
        draft.tasks[task.task_id] = (task, definitions.decode_cached(row[-1]))
        for trigger_row in statements.rows(db, "trigger/of_task", (task.task_id,)):
            trigger = rows.trigger_of(trigger_row)
            draft.triggers[trigger.trigger_id] = trigger
