"""Load what a transaction's keys name into a Draft. Reads only; runs on the writer's connection."""

from __future__ import annotations

from collections.abc import Iterable

import apsw
import msgspec

from qinglong.domain import definitions
from qinglong.domain.admission import gate_keys as gates_of_revision
from qinglong.domain.change import Aggregate, Draft
from qinglong.domain.gates import WAITS, is_overlap, overlap_key
from qinglong.domain.records import Attempt, Evidence, Gate, Run, Session, Worker
from qinglong.errors import Damaged
from qinglong.ledger.port import Keys, Pull
from qinglong.ledger.sqlite import rows, statements

_RUN = len(Run.__struct_fields__)
_ATTEMPT = _RUN + len(Attempt.__struct_fields__)
_json = msgspec.json.encode


def load(db: apsw.Connection, keys: Keys, now_ms: int) -> Draft:
    """A Draft with the named records as they are. Raises ``Damaged`` for a Run without its Attempt."""
    aggregates = _aggregates(db, keys.runs) if keys.runs else {}
    draft = Draft(now_ms, aggregates, {}, _session(db, keys.worker) if keys.worker else None)
    if keys.worker:
        spoken = statements.row(db, "worker/get", (keys.worker,))
        draft.worker = None if spoken is None else Worker(*spoken)
    if keys.pull is not None:
        _pull(db, draft, keys.worker, keys.pull)
    for trigger_id in keys.triggers:
        row = statements.row(db, "trigger/get", (trigger_id,))
        if row is not None:
            draft.triggers[trigger_id] = rows.trigger_of(row)
    _tasks(db, draft, {*keys.tasks, *(trigger.task_id for trigger in draft.triggers.values())})
    if keys.frees or keys.gates or draft.tasks:
        _load_gates(db, draft, keys)
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
    draft.aggregates = dict(aggregates)
    return draft


def _aggregates(db: apsw.Connection, run_ids: Iterable[str]) -> dict[str, Aggregate]:
    found: dict[str, Aggregate] = {}
    for row in statements.rows(db, "run/load", (_json(list(run_ids)),)):
        run = rows.run_of(row[:_RUN])
        if row[_RUN] is None:
            raise Damaged("attempt_missing", f"run {run.run_id} has no attempt {run.attempt}")
        attempt = rows.attempt_of(row[_RUN:_ATTEMPT])
        lease = None if row[_ATTEMPT] is None else rows.lease_of(row[_ATTEMPT:])
        found[run.run_id] = Aggregate(run, attempt, lease)
    return found


def _pull(db: apsw.Connection, draft: Draft, worker: str, pull: Pull) -> None:
    """What the worker holds, what it was granted before for these wants, and what it may be offered."""
    draft.held = {row[0] for row in statements.rows(db, "lease/offers_of_worker", (worker,))}
    again = statements.rows(db, "lease/by_offers", (_json(pull.wanted),)) if pull.wanted else []
    draft.again = tuple(row[0] for row in again)
    ready = [
        row
        for placement in pull.placements
        for row in statements.rows(db, "queue/candidates", (placement, draft.now_ms, pull.limit))
    ]
    draft.offered = tuple(run_id for _, run_id in sorted(ready)[: pull.limit])
    draft.loaded.update(_aggregates(db, (*draft.again, *draft.offered)))


def _tasks(db: apsw.Connection, draft: Draft, task_ids: set[str]) -> None:
    if not task_ids:
        return
    for row in statements.rows(db, "task/load", (_json(sorted(task_ids)),)):
        task = rows.task_of(row[:-1])
        draft.tasks[task.task_id] = (task, definitions.decode_cached(row[-1]))


def _load_gates(db: apsw.Connection, draft: Draft, keys: Keys) -> None:
    """The named gates, those of the named tasks, those that the named Runs may leave; and the Runs that matter."""
    named = {
        *keys.gates,
        *(key for task, spec in draft.tasks.values() for key in gates_of_revision(task, spec)),
    }
    leaving: dict[str, int] = {}
    if keys.frees:
        for found in draft.loaded.values():
            for key in found.run.gates:
                leaving[key] = leaving.get(key, 0) + 1
    _gates(db, draft, named | leaving.keys())
    replacing = {
        overlap_key(task.task_id) for task, spec in draft.tasks.values() if spec.overlap.kind == "replace"
    }
    wanted = [
        run_id
        for key, gate in draft.gates.items()
        for run_id in _of_interest(gate, keys.members or key in replacing, leaving.get(key, 0))
        if run_id not in draft.loaded
    ]
    if wanted:
        draft.loaded.update(_aggregates(db, wanted))
    # A Run that moves may pass on to gates that no key named: its revision's group.
    _gates(
        db, draft, {key for found in draft.loaded.values() for key in found.run.gates} - draft.gates.keys()
    )


def _gates(db: apsw.Connection, draft: Draft, keys: set[str]) -> None:
    if not keys:
        return
    inside: dict[str, list[str]] = {key: [] for key in keys}
    waiting: dict[str, list[str]] = {key: [] for key in keys}
    for key, waits, run_id in statements.rows(db, "place/load", (_json(sorted(keys)),)):
        (waiting if waits == WAITS else inside)[key].append(run_id)
    for key in sorted(keys):
        draft.gates[key] = Gate(key, _capacity(db, key), tuple(inside[key]), tuple(waiting[key]))


def _capacity(db: apsw.Connection, key: str) -> int:
    row = None if is_overlap(key) else statements.row(db, "limit/get", (key,))
    return 1 if row is None else int(row[0])


def _of_interest(gate: Gate, members: bool, leaving: int) -> tuple[str, ...]:
    """Runs of a gate to load: everyone for ``replace``, else as many waiters as could be promoted."""
    if members:
        return (*gate.occupants, *gate.waiting)
    return gate.waiting[: leaving + max(gate.room, 0)] if leaving else ()


def _session(db: apsw.Connection, worker: str) -> Session | None:
    row = statements.row(db, "session/get", (worker,))
    return None if row is None else rows.session_of(row)


def _evidence(db: apsw.Connection, run_id: str) -> tuple[Evidence, ...]:
    return tuple(map(rows.evidence_of, statements.rows(db, "evidence/list", (run_id,))))


def _definitions(db: apsw.Connection, draft: Draft, project: str) -> None:
    for row in statements.rows(db, "task/of_project", (project,)):
        task = rows.task_of(row[:-1])
        draft.tasks[task.task_id] = (task, definitions.decode_cached(row[-1]))
        for trigger_row in statements.rows(db, "trigger/of_task", (task.task_id,)):
            trigger = rows.trigger_of(trigger_row)
            draft.triggers[trigger.trigger_id] = trigger
