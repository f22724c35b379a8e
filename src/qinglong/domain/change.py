"""Changes and refusals: what rules return, and how a transaction gathers them.

A rule takes an :class:`Aggregate` and facts and returns a :class:`Change` or a :class:`Refusal`. A
transaction's ``decide`` runs rules against a :class:`Draft`, which folds the Changes of one aggregate; the
ledger then applies the draft as a whole, knowing no rule. Design section 5.
"""

from __future__ import annotations

from typing import Any

import msgspec

from qinglong.domain import states
from qinglong.domain.definitions import TaskSpec
from qinglong.domain.gates import places, same_places, shift
from qinglong.domain.records import (
    Attempt,
    AttemptRef,
    Audit,
    Event,
    Evidence,
    Gate,
    LateEvidence,
    Lease,
    Limit,
    Occurrence,
    Removed,
    RevisionRow,
    Run,
    RunKey,
    Session,
    Task,
    Trigger,
    Worker,
    WorkerToken,
)
from qinglong.errors import Damaged


class Aggregate(msgspec.Struct, frozen=True, gc=False):
    """A Run with its newest Attempt and that Attempt's live Lease, as they are now."""

    run: Run
    attempt: Attempt
    lease: Lease | None


class Change(msgspec.Struct, frozen=True, gc=False):
    """New values of one aggregate, and the Events that say why. ``run.version`` counts the Events."""

    after: Aggregate
    events: tuple[Event, ...] = ()


class Refusal(msgspec.Struct, frozen=True, gc=False):
    """A rule said no. ``code`` is stable; ``late`` asks that the report be kept as late evidence (I4)."""

    code: str
    message: str = ""
    late: bool = False


Record = (
    LateEvidence
    | Evidence
    | Occurrence
    | Trigger
    | RunKey
    | Task
    | RevisionRow
    | Limit
    | Removed
    | Worker
    | WorkerToken
    | Audit
)


def event(run: Run, now_ms: int, kind: str, /, **data: Any) -> tuple[Run, Event]:
    """The Run at its next version and the Event that carries that number (I1); ``None`` values are left out."""
    version = run.version + 1
    body = {key: value for key, value in data.items() if value is not None}
    return msgspec.structs.replace(run, version=version), Event(run.run_id, version, now_ms, kind, body)


class Draft:
    """The working set of one transaction: facts as loaded, and as they become."""

    def __init__(
        self,
        now_ms: int,
        aggregates: dict[str, Aggregate],
        gates: dict[str, Gate],
        session: Session | None = None,
    ) -> None:
        self.now_ms = now_ms
        """The ledger's clock, read after the locks were held (I11)."""
        self.loaded = aggregates
        self.aggregates = dict(aggregates)
        self.gates = dict(gates)
        self.session_before = session
        self.session = session
        self.worker: Worker | None = None
        """What an operator said about the worker whose Session was loaded."""
        self.offered: tuple[str, ...] = ()
        """Queued Runs that a pull may be granted, by priority, then oldest first."""
        self.again: tuple[str, ...] = ()
        """Runs that were granted before for one of the pull's wants: the reply was lost."""
        self.fence = 0
        """The newest number of the ledger-wide fence counter, if it was loaded."""
        self.fence_moved = False
        self.evidence: dict[str, tuple[Evidence, ...]] = {}
        """Recorded answers by Run, oldest first."""
        self.triggers: dict[str, Trigger] = {}
        self.tasks: dict[str, tuple[Task, TaskSpec]] = {}
        """Task heads by id, each with the spec of its newest revision."""
        self.occurred: set[tuple[str, str]] = set()
        """Which of the asked (trigger id, occurrence key) were answered before (I6)."""
        self.held: set[str] = set()
        """Offer ids of the live Leases of the worker whose Session was loaded, for a pull."""
        self.run_key: tuple[str, str] | None = None
        """(digest, run id) of the idempotency key that was asked for."""
        self.attempts: dict[AttemptRef, Attempt] = {}
        self.events: list[Event] = []
        self.puts: list[Record] = []
        """Records stored as they are, beside the aggregates."""
        self.freed: set[str] = set()
        """Gates at which a place became free in this transaction."""

    def get(self, run_id: str) -> Aggregate | None:
        """The aggregate as it stands in this transaction."""
        return self.aggregates.get(run_id)

    def next_fence(self) -> int:
        """A number greater than any handed out before, for ``QL_FENCE``."""
        self.fence += 1
        self.fence_moved = True
        return self.fence

    def apply(self, change: Change) -> None:
        """Fold one Change; refuses what the state tables do not list. Raises :class:`Damaged`."""
        after = change.after
        run_id = after.run.run_id
        before = self.aggregates.get(run_id)
        _check(before, change)
        if before is None or before.attempt is not after.attempt:
            self.attempts[after.attempt.ref] = after.attempt
        self._move_places(before.run if before else None, after.run)
        self.aggregates[run_id] = after
        self.events.extend(change.events)
        if self.held and before is not None and before.lease is not None and after.lease is None:
            self.held.discard(before.lease.offer_id)

    def _move_places(self, before: Run | None, after: Run) -> None:
        if not after.gates or (before is not None and same_places(before, after)):
            return
        old = dict(places(before)) if before is not None else {}
        new = dict(places(after))
        for key in old | new:
            gate = self.gates.get(key)
            if gate is None:
                raise Damaged("gate_not_locked", f"a change of run {after.run_id} moves gate {key} unlocked")
            moved = shift(gate, after.run_id, old.get(key), new.get(key))
            if moved.room > gate.room:
                self.freed.add(key)
            self.gates[key] = moved


def _check(before: Aggregate | None, change: Change) -> None:
    after = change.after
    first = 1 if before is None else before.run.version + 1
    if after.run.version != first + len(change.events) - 1:
        raise Damaged("event_gap", f"run {after.run.run_id}: version and events disagree")
    if before is None:
        return
    states.check(states.RUN, before.run.state, after.run.state, "run", after.run.run_id)
    if before.attempt.number == after.attempt.number:
        states.check(
            states.ATTEMPT, before.attempt.status, after.attempt.status, "attempt of", after.run.run_id
        )
    elif before.attempt.status not in states.ATTEMPT_FINAL:
        raise Damaged("two_live_attempts", f"run {after.run.run_id} would have two live attempts")
    if after.lease is not None and after.attempt.status in states.ATTEMPT_FINAL:
        raise Damaged("ended_but_leased", f"run {after.run.run_id}: a final attempt cannot be leased")
