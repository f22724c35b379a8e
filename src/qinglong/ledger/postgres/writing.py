"""Last part of a transaction: store the draft, one statement a kind, each a compare-and-set. Knows no rule."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from qinglong.domain.change import Aggregate, Draft, Record
from qinglong.domain.gates import places, same_places
from qinglong.domain.index import due_ms, queue_row
from qinglong.domain.records import (
    Audit,
    Evidence,
    LateEvidence,
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
from qinglong.errors import Damaged
from qinglong.ledger.port import Hints
from qinglong.ledger.postgres import rows
from qinglong.ledger.postgres.statements import Db, send
from qinglong.limits import FENCE_BLOCK, LATE_EVIDENCE_PER_ATTEMPT

_COMPARED = (
    # A Lease leaves before its Attempt ends (I5), an Attempt ends before its successor is born (I2).
    "lease/delete",
    "run/update",
    "attempt/update",
    "lease/update",
    "place/delete",
    "queue/delete",
    "due/delete",
    "session/upsert",
)
_ORDER = (
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
    "ending/insert",
    "event/insert",
    "session/upsert",
    "task/upsert",
    "task/insert_revision",
    "trigger/upsert",
    "trigger/delete",
    "limit/upsert",
    "occurrence/insert",
    "run_key/insert",
    "evidence/upsert",
    "late/insert",
    "worker/upsert",
    "worker_token/upsert",
    "audit/insert",
)
_TABLES: dict[type, str] = {
    Evidence: "evidence/upsert",
    LateEvidence: "late/insert",
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


class Writing:
    """What the drafts of one group store, by statement, and the hints that follow from it."""

    def __init__(self, drafts: Sequence[Draft]) -> None:
        self._base = drafts[0]
        self._rows: dict[str, list[Any]] = {}
        self._due: list[int] = []
        self._stops: list[str] = []
        moved = False
        for run_id, after in self._base.aggregates.items():
            before = self._base.loaded.get(run_id)
            if before is after:
                continue
            moved = True
            self._run(before.run if before else None, after.run)
            self._lease(before, after)
            if after.lease is not None and after.run.intent is not None:
                self._stops.append(after.lease.worker)
        self._attempts()
        self._extend("event/insert", self._base.events)
        for draft in drafts:
            if draft.session is not None and draft.session is not draft.session_before:
                self._add("session/upsert", draft.session)
            if draft.fence_moved and draft.fence % FENCE_BLOCK == 0:
                # The block's last number is never used: one more would be somebody else's.
                raise Damaged("fence_block", "one transaction drew more fence numbers than it was given")
        for record in self._base.puts:
            self._put(record)
        if moved and any(gate.room > 0 and gate.waiting for gate in self._base.gates.values()):
            self._due.append(self._base.now_ms)  # a free place that nobody here could take: the sweep is due

    @property
    def events(self) -> Sequence[Any]:
        """The Events, by which a commit without a reply is recognised."""
        return self._base.events

    def __bool__(self) -> bool:
        return bool(self._rows)

    def send(self, db: Db) -> None:
        """Send every statement down the pipeline; the first error undoes the transaction."""
        for name in _ORDER:
            found = self._rows.get(name)
            if not found:
                continue
            values = found if name == "due/delete" else rows.encoded(found)
            if name in _COMPARED:
                send(db, name, values, len(found))
            elif name == "late/insert":
                send(db, name, values, LATE_EVIDENCE_PER_ATTEMPT)
            else:
                send(db, name, values)

    def hints(self) -> Hints | None:
        """What the commit made; moments are still the ledger's clock's."""
        queued = tuple(row.placement for row in self._rows.get("queue/insert", ()))
        skipped = tuple(
            (record.reason, record.count)
            for record in self._base.puts
            if isinstance(record, Occurrence) and record.run_id is None
        )
        changed = tuple({event.run_id for event in self._base.events})
        if not (queued or self._due or self._stops or changed or skipped):
            return None
        return Hints(queued, min(self._due, default=None), tuple(self._stops), changed, skipped)

    def _add(self, name: str, row: Any) -> None:
        self._rows.setdefault(name, []).append(row)

    def _extend(self, name: str, found: Sequence[Any]) -> None:
        if found:
            self._rows.setdefault(name, []).extend(found)

    def _run(self, before: Run | None, after: Run) -> None:
        """A Run and the small rows that follow from it."""
        if before is after:
            return
        if before is None:
            self._add("run/insert", after)
        else:
            self._add("run/update", rows.changes(after, was_version=before.version))
        self._places(before, after)
        self._due_row(before, after)
        if (
            after.finished_ms is not None
            and after.state != "succeeded"
            and (before is None or before.finished_ms is None)
        ):
            self._add(
                "ending/insert",
                {
                    "state": after.state,
                    "run_id": after.run_id,
                    "project": after.project,
                    "task_id": after.task_id,
                },
            )
        old = None if before is None else queue_row(before)
        new = queue_row(after)
        if old == new:
            return
        if old is not None:
            self._add("queue/delete", old._asdict())
        if new is not None:
            self._add("queue/insert", new)
            if new.available_ms:
                self._due.append(new.available_ms)

    def _places(self, before: Run | None, after: Run) -> None:
        if before is not None and same_places(before, after):
            return
        old = () if before is None else places(before)
        new = places(after)
        for name, rows_of, others in (("place/delete", old, new), ("place/insert", new, old)):
            for place in rows_of:
                if place not in others:
                    self._add(name, {"gate": place[0], "waits": place[1], "run_id": after.run_id})

    def _due_row(self, before: Run | None, after: Run) -> None:
        old = None if before is None else due_ms(before)
        new = due_ms(after)
        if old == new:
            return
        if new is None:
            self._add("due/delete", after.run_id)
            return
        self._add("due/upsert", {"run_id": after.run_id, "due_ms": new})
        self._due.append(new)

    def _attempts(self) -> None:
        for ref, attempt in self._base.attempts.items():
            before = self._base.loaded.get(ref.run_id)
            if before is None or before.attempt.number != ref.number:
                self._add("attempt/insert", attempt)
                continue
            old = before.attempt
            was = {"was_status": old.status, "was_generation": old.lease_generation}
            self._add("attempt/update", rows.changes(attempt, **was))

    def _lease(self, before: Aggregate | None, after: Aggregate) -> None:
        """A Lease and the moment at which recovery wakes for it; a renewal only moves that moment away."""
        old, new = before.lease if before else None, after.lease
        if old is new:
            return
        if new is not None and (old is None or new.judge_ms < old.judge_ms):
            self._due.append(new.judge_ms)
        if (
            old is not None
            and new is not None
            and (old.attempt, old.generation) == (new.attempt, new.generation)
        ):
            self._add("lease/update", rows.changes(new, was_version=old.version))
            return
        if old is not None:
            self._add(
                "lease/delete",
                {
                    "run_id": old.run_id,
                    "step": old.step,
                    "attempt": old.attempt,
                    "generation": old.generation,
                    "version": old.version,
                },
            )
        if new is not None:
            self._add("lease/insert", new)

    def _put(self, record: Record) -> None:
        kind = type(record)
        row = rows.with_text_spec(record) if isinstance(record, Trigger | RevisionRow) else record
        self._add(_TABLES[kind], row)
        moment = _MOMENTS.get(kind, lambda _: None)(record)
        if moment is not None:
            self._due.append(moment)
