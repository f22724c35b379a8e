"""Apply a Draft: every statement is a compare-and-set on what was loaded. Knows no rule."""

from __future__ import annotations

from typing import Any

import apsw
import msgspec

from qinglong.domain.change import Draft
from qinglong.domain.gates import places
from qinglong.domain.index import due_ms, queue_row
from qinglong.domain.records import (
    Evidence,
    LateEvidence,
    Lease,
    Limit,
    Occurrence,
    Removed,
    RevisionRow,
    Run,
    RunKey,
    Task,
    Trigger,
)
from qinglong.errors import Conflict
from qinglong.ledger.port import Hints
from qinglong.ledger.sqlite import rows
from qinglong.ledger.sqlite.statements import sql
from qinglong.limits import LATE_EVIDENCE_PER_ATTEMPT

_astuple = msgspec.structs.astuple


def apply(db: apsw.Connection, draft: Draft) -> Hints | None:
    """Store the draft; what it made, as hints. Raises ``Conflict`` where a compare-and-set missed."""
    for lease in draft.ended.values():
        _one(db, "lease/delete", (*lease.ref, lease.generation, lease.version))
    queued = False
    due: list[int] = []
    stops: list[str] = []
    for run_id, after in draft.aggregates.items():
        before = draft.loaded.get(run_id)
        if before is after:
            continue
        queued |= _run(db, None if before is None else before.run, after.run, due)
        _lease(db, None if before is None else before.lease, after.lease)
        if after.lease is not None and after.run.intent is not None:
            stops.append(after.lease.worker)
    _attempts(db, draft)
    if draft.events:
        db.executemany(sql("event/insert"), [rows.row_of_event(event) for event in draft.events])
    if draft.session is not None and draft.session is not draft.session_before:
        db.execute(sql("session/upsert"), rows.row_of_session(draft.session))
    if draft.fence_moved:
        db.execute(sql("counter/set"), (draft.fence,))
    for record in draft.puts:
        _put(db, record, due)
    if not (queued or due or stops or draft.events):
        return None
    changed = tuple({event.run_id for event in draft.events})
    return Hints(queued, min(due, default=None), tuple(stops), changed)


def _one(db: apsw.Connection, name: str, values: tuple[Any, ...]) -> None:
    db.execute(sql(name), values)
    if db.changes() != 1:
        raise Conflict("compare_and_set", f"{name}: the record is not as it was loaded")


def _run(db: apsw.Connection, before: Run | None, after: Run, due: list[int]) -> bool:
    """Store a Run and the small rows that follow from it; whether it became offerable."""
    if before is after:
        return False
    if before is None:
        db.execute(sql("run/insert"), rows.row_of_run(after))
    else:
        _one(db, "run/update", (*rows.changes_of_run(after), after.run_id, before.version))
    _places(db, before, after)
    _due(db, before, after, due)
    old = None if before is None else queue_row(before)
    new = queue_row(after)
    if old == new:
        return False
    if old is not None:
        db.execute(sql("queue/delete"), old[:2])
    if new is None:
        return False
    db.execute(sql("queue/insert"), new)
    if new.available_ms:
        due.append(new.available_ms)
    return True


def _places(db: apsw.Connection, before: Run | None, after: Run) -> None:
    if before is not None and before.state == after.state and before.held_by == after.held_by:
        return
    old = () if before is None else places(before)
    new = places(after)
    for key, waits in old:
        if (key, waits) not in new:
            db.execute(sql("place/delete"), (key, waits, after.run_id))
    for key, waits in new:
        if (key, waits) not in old:
            db.execute(sql("place/insert"), (key, waits, after.run_id))


def _due(db: apsw.Connection, before: Run | None, after: Run, due: list[int]) -> None:
    old = None if before is None else due_ms(before)
    new = due_ms(after)
    if old == new:
        return
    if new is None:
        db.execute(sql("due/delete"), (after.run_id,))
        return
    db.execute(sql("due/upsert"), (after.run_id, new))
    due.append(new)


def _attempts(db: apsw.Connection, draft: Draft) -> None:
    for ref, attempt in draft.attempts.items():
        before = draft.loaded.get(ref.run_id)
        if before is None or before.attempt.number != ref.number:
            db.execute(sql("attempt/insert"), _astuple(attempt))
            continue
        old = before.attempt
        values = _astuple(attempt)[rows.ATTEMPT_CHANGES :]
        _one(db, "attempt/update", (*values, *ref, old.status, old.lease_generation))


def _lease(db: apsw.Connection, before: Lease | None, after: Lease | None) -> None:
    if after is None or before is after:
        return
    if before is None or before.generation != after.generation:
        db.execute(sql("lease/insert"), _astuple(after))
        return
    values = _astuple(after)[rows.LEASE_CHANGES :]
    _one(db, "lease/update", (*values, *after.ref, before.generation, before.version))


def _put(db: apsw.Connection, record: object, due: list[int]) -> None:
    match record:
        case LateEvidence():
            db.execute(sql("late/insert"), (*_astuple(record), LATE_EVIDENCE_PER_ATTEMPT))
        case Evidence():
            db.execute(sql("evidence/upsert"), _astuple(record))
            due.append(record.at_ms)
        case Occurrence():
            db.execute(sql("occurrence/insert"), _astuple(record))
        case Trigger():
            db.execute(sql("trigger/upsert"), _astuple(record))
            if record.next_ms is not None:
                due.append(record.next_ms)
        case RunKey():
            db.execute(sql("run_key/insert"), _astuple(record))
        case Task():
            db.execute(sql("task/upsert"), _astuple(record))
        case RevisionRow():
            db.execute(sql("task/insert_revision"), _astuple(record))
        case Limit():
            db.execute(sql("limit/upsert"), _astuple(record))
        case Removed():
            db.execute(sql("trigger/delete"), (record.trigger_id,))
        case _:
            raise TypeError(f"no table for {type(record).__name__}")
