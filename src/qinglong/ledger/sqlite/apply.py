"""Apply a Draft: every statement is a compare-and-set on what was loaded. Knows no rule.

Rows are gathered per statement and run as batches; a batch that changed fewer rows than it should means that a
record is not as it was loaded, and nothing is stored.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import apsw
import msgspec

from qinglong.domain.change import Aggregate, Draft, Record
from qinglong.domain.gates import places, same_places
from qinglong.domain.index import due_ms, queue_row
from qinglong.domain.records import (
    Audit,
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
    Worker,
    WorkerToken,
)
from qinglong.errors import Conflict
from qinglong.ledger.port import Hints
from qinglong.ledger.sqlite import rows
from qinglong.ledger.sqlite.statements import sql
from qinglong.limits import LATE_EVIDENCE_PER_ATTEMPT

_astuple = msgspec.structs.astuple
_ORDER = (
    # A Lease leaves before its Attempt ends (I5), an Attempt ends before its successor is born (I2).
    "lease/delete",
    "run/insert",
    "run/update",
    "attempt/update",
    "attempt/insert",
    "lease/update",
    "lease/insert",
    "place/delete",
    "place/insert",
    "queue/delete",
    "queue/insert",
    "due/delete",
    "due/upsert",
    "event/insert",
)


class _Batches:
    """Rows by statement, run in ``_ORDER``."""

    def __init__(self) -> None:
        self.rows: dict[str, list[tuple[Any, ...]]] = {name: [] for name in _ORDER}

    def run(self, db: apsw.Connection) -> None:
        for name, batch in self.rows.items():
            if not batch:
                continue
            before = db.total_changes()
            db.executemany(sql(name), batch)
            if db.total_changes() - before != len(batch):
                raise Conflict("compare_and_set", f"{name}: a record is not as it was loaded")


def apply(db: apsw.Connection, draft: Draft) -> Hints | None:
    """Store the draft; what it made, as hints. Raises ``Conflict`` where a compare-and-set missed."""
    batches = _Batches()
    due: list[int] = []
    stops: list[str] = []
    moved = False
    for run_id, after in draft.aggregates.items():
        before = draft.loaded.get(run_id)
        if before is after:
            continue
        moved = True
        _run(batches, before.run if before else None, after.run, due)
        _lease(batches, before, after, due)
        if after.lease is not None and after.run.intent is not None:
            stops.append(after.lease.worker)
    _attempts(batches, draft)
    batches.rows["event/insert"] = [rows.row_of_event(event) for event in draft.events]
    batches.run(db)
    if draft.session is not None and draft.session is not draft.session_before:
        _one(db, "session/upsert", rows.row_of_session(draft.session))
    if draft.fence_moved:
        _one(db, "counter/set", (draft.fence,))
    for record in draft.puts:
        _put(db, record, due)
    if moved and any(gate.room > 0 and gate.waiting for gate in draft.gates.values()):
        due.append(draft.now_ms)  # a place is free that nobody here could be promoted to: the sweep is due
    queued = tuple(row[0] for row in batches.rows["queue/insert"])
    skipped = tuple(
        (record.reason, record.count)
        for record in draft.puts
        if isinstance(record, Occurrence) and record.run_id is None
    )
    if not (queued or due or stops or draft.events or skipped):
        return None
    changed = tuple({event.run_id for event in draft.events})
    return Hints(queued, min(due, default=None), tuple(stops), changed, skipped)


def _one(db: apsw.Connection, name: str, values: tuple[Any, ...]) -> None:
    db.execute(sql(name), values)
    if db.changes() != 1:
        raise Conflict("compare_and_set", f"{name}: the record is not as it was loaded")


def _run(batches: _Batches, before: Run | None, after: Run, due: list[int]) -> None:
    """A Run and the small rows that follow from it."""
    if before is after:
        return
    if before is None:
        batches.rows["run/insert"].append(rows.row_of_run(after))
    else:
        changes = rows.changes_of_run(after)
        batches.rows["run/update"].append((*changes, after.run_id, before.version))
    _places(batches, before, after)
    _due(batches, before, after, due)
    old = None if before is None else queue_row(before)
    new = queue_row(after)
    if old == new:
        return
    if old is not None:
        batches.rows["queue/delete"].append(old[:3])
    if new is not None:
        batches.rows["queue/insert"].append(new)
        if new.available_ms:
            due.append(new.available_ms)


def _places(batches: _Batches, before: Run | None, after: Run) -> None:
    if before is not None and same_places(before, after):
        return
    old = () if before is None else places(before)
    new = places(after)
    for key, waits in old:
        if (key, waits) not in new:
            batches.rows["place/delete"].append((key, waits, after.run_id))
    for key, waits in new:
        if (key, waits) not in old:
            batches.rows["place/insert"].append((key, waits, after.run_id))


def _due(batches: _Batches, before: Run | None, after: Run, due: list[int]) -> None:
    old = None if before is None else due_ms(before)
    new = due_ms(after)
    if old == new:
        return
    if new is None:
        batches.rows["due/delete"].append((after.run_id,))
        return
    batches.rows["due/upsert"].append((after.run_id, new))
    due.append(new)


def _attempts(batches: _Batches, draft: Draft) -> None:
    for ref, attempt in draft.attempts.items():
        before = draft.loaded.get(ref.run_id)
        if before is None or before.attempt.number != ref.number:
            batches.rows["attempt/insert"].append(_astuple(attempt))
            continue
        old = before.attempt
        values = _astuple(attempt)[rows.ATTEMPT_CHANGES :]
        batches.rows["attempt/update"].append((*values, *ref, old.status, old.lease_generation))


def _lease(batches: _Batches, before: Aggregate | None, after: Aggregate, due: list[int]) -> None:
    """A Lease and the moment at which recovery wakes for it; a renewal only moves that moment away."""
    old, new = before.lease if before else None, after.lease
    if old is new:
        return
    if new is not None and (old is None or new.judge_ms < old.judge_ms):
        due.append(new.judge_ms)
    if old is not None and new is not None and _same_grant(old, new):
        values = _astuple(new)[rows.LEASE_CHANGES :]
        batches.rows["lease/update"].append((*values, *old.ref, old.generation, old.version))
        return
    if old is not None:
        batches.rows["lease/delete"].append((*old.ref, old.generation, old.version))
    if new is not None:
        batches.rows["lease/insert"].append(_astuple(new))


def _same_grant(old: Lease, new: Lease) -> bool:
    return old.attempt == new.attempt and old.generation == new.generation


_TABLES: dict[type, str] = {
    Evidence: "evidence/upsert",
    Occurrence: "occurrence/insert",
    Trigger: "trigger/upsert",
    RunKey: "run_key/insert",
    Task: "task/upsert",
    RevisionRow: "task/insert_revision",
    Limit: "limit/upsert",
    Removed: "trigger/delete",
    Worker: "worker/upsert",
    WorkerToken: "worker_token/upsert",
    Audit: "audit/insert",
}
_MOMENTS: dict[type, Callable[[Any], int | None]] = {
    Evidence: lambda evidence: evidence.at_ms,
    Trigger: lambda trigger: trigger.next_ms,
}


def _put(db: apsw.Connection, record: Record, due: list[int]) -> None:
    if isinstance(record, LateEvidence):
        db.execute(sql("late/insert"), (*_astuple(record), LATE_EVIDENCE_PER_ATTEMPT))
        return
    kind = type(record)
    db.execute(sql(_TABLES[kind]), _astuple(record))
    moment = _MOMENTS.get(kind, lambda _: None)(record)
    if moment is not None:
        due.append(moment)
