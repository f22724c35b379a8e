"""A ledger in memory: the smallest thing that applies Drafts. It shows what the rules do, not how rows are kept."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from qinglong.domain import definitions
from qinglong.domain.admission import gate_keys
from qinglong.domain.change import Aggregate, Draft
from qinglong.domain.gates import OCCUPIES, WAITS, is_overlap, places
from qinglong.domain.index import due_ms, queue_row
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
from qinglong.errors import Conflict
from qinglong.ledger.port import Due, Hints, Keys, Page, Pull, RunView, TaskView
from qinglong.limits import LATE_EVIDENCE_PER_ATTEMPT
from support.clock import FakeClock

T = TypeVar("T")


def drive(work: Coroutine[Any, Any, T]) -> T:
    """The result of a coroutine that waits for nothing."""
    try:
        work.send(None)
    except StopIteration as done:
        return done.value
    work.close()
    raise AssertionError("it waited")


class MemoryLedger:
    """``Ledger``, and as much of ``Queries`` as the control plane itself asks for."""

    def __init__(self, clock: FakeClock) -> None:
        self.clock = clock
        self.aggregates: dict[str, Aggregate] = {}
        self.attempts: dict[AttemptRef, Attempt] = {}
        self.events_of: dict[str, list[Event]] = {}
        self.evidence: dict[tuple[str, str, int, str], Evidence] = {}
        self.late: dict[tuple[str, str, int, str], LateEvidence] = {}
        self.occurred: dict[tuple[str, str], Occurrence] = {}
        self.sessions_of: dict[str, Session] = {}
        self.heads: dict[str, Task] = {}
        self.revisions: dict[tuple[str, int], bytes] = {}
        self.triggers: dict[str, Trigger] = {}
        self.limits: dict[str, int] = {}
        self.keys: dict[tuple[str, str], RunKey] = {}
        self.spoken: dict[str, Worker] = {}
        self.tokens: dict[str, WorkerToken] = {}
        self.trail: list[Audit] = []
        self.fence = 0
        self.listeners: list[Callable[[Hints], None]] = []

    # Changes

    async def transact(self, keys: Keys, decide: Callable[[Draft], T]) -> T:
        draft = self._load(keys)
        result = decide(draft)
        hints = self._apply(draft)
        for listener in self.listeners:
            listener(hints)
        return result

    def gate(self, key: str) -> Gate:
        stand = sorted(
            (run_id, found) for run_id, one in self.aggregates.items() for found in places(one.run)
        )
        inside = tuple(run_id for run_id, place in stand if place == (key, OCCUPIES))
        waiting = tuple(run_id for run_id, place in stand if place == (key, WAITS))
        return Gate(key, 1 if is_overlap(key) else self.limits.get(key, 1), inside, waiting)

    def _load(self, keys: Keys) -> Draft:
        draft = Draft(self.clock.wall_ms(), dict(self.aggregates), {}, self.sessions_of.get(keys.worker))
        draft.triggers = {
            trigger_id: trigger
            for trigger_id, trigger in self.triggers.items()
            if keys.project or trigger_id in keys.triggers
        }
        wanted = {*keys.tasks, *(trigger.task_id for trigger in draft.triggers.values())}
        for task_id, head in self.heads.items():
            if keys.project or task_id in wanted:
                raw = self.revisions[task_id, head.revision]
                draft.tasks[task_id] = (head, definitions.decode_cached(raw))
        gates = {key for one in self.aggregates.values() for key in one.run.gates}
        gates.update(key for head, spec in draft.tasks.values() for key in gate_keys(head, spec))
        draft.gates = {key: self.gate(key) for key in gates | set(keys.gates)}
        draft.held = {lease.offer_id for lease in self._leases(keys.worker)}
        draft.worker = self.spoken.get(keys.worker)
        if keys.pull is not None:
            self._pull(draft, keys.pull)
        for found in sorted(self.evidence.values(), key=lambda one: (one.generation, one.version)):
            draft.evidence[found.run_id] = (*draft.evidence.get(found.run_id, ()), found)
        if keys.run_key in self.keys:
            found_key = self.keys[keys.run_key]
            draft.run_key = (found_key.digest, found_key.run_id)
        draft.occurred = {pair for pair in keys.occurrences if pair in self.occurred}
        draft.fence = self.fence
        return draft

    def _pull(self, draft: Draft, pull: Pull) -> None:
        rows = [queue_row(one.run) for one in self.aggregates.values()]
        ready = [
            row
            for row in rows
            if row and row.available_ms <= draft.now_ms and row.placement in pull.placements
        ]
        ordered = sorted(ready, key=lambda row: (row.rank, row.run_id))
        draft.offered = tuple(row.run_id for row in ordered[: pull.limit])
        held = (one.lease for one in self.aggregates.values())
        draft.again = tuple(one.run_id for one in held if one is not None and one.offer_id in pull.wanted)

    def _apply(self, draft: Draft) -> Hints:
        queued, stops, due = [], [], []
        for run_id, after in draft.aggregates.items():
            before = self.aggregates.get(run_id)
            if before is after:
                continue
            row = queue_row(after.run)
            if row is not None and (before is None or row != queue_row(before.run)):
                queued.append(row.placement)
            if after.lease is not None and after.run.intent is not None:
                stops.append(after.lease.worker)
            moment = due_ms(after.run)
            due += [moment] if moment is not None else []
            self.aggregates[run_id] = after
        self.attempts.update(draft.attempts)
        for event in draft.events:
            self.events_of.setdefault(event.run_id, []).append(event)
        if draft.session is not None:
            self.sessions_of[draft.session.worker] = draft.session
        self.fence = draft.fence
        for record in draft.puts:
            self._put(record)
        return Hints(
            tuple(queued), min(due, default=None), tuple(stops), tuple({e.run_id for e in draft.events})
        )

    def _put(self, record: object) -> None:
        match record:
            case LateEvidence():
                mine = [key for key in self.late if key[:3] == (record.run_id, record.step, record.attempt)]
                if len(mine) < LATE_EVIDENCE_PER_ATTEMPT:
                    self.late[(record.run_id, record.step, record.attempt, record.digest)] = record
            case Evidence():
                key = (record.run_id, record.step, record.attempt, record.provider)
                known = self.evidence.get(key)
                if known is None or (record.generation, record.version) >= (known.generation, known.version):
                    self.evidence[key] = record
            case Occurrence():
                if (record.trigger_id, record.key) in self.occurred:
                    raise Conflict("occurred", "an occurrence was answered twice")
                self.occurred[record.trigger_id, record.key] = record
            case Trigger():
                self.triggers[record.trigger_id] = record
            case RunKey():
                self.keys[record.project, record.key] = record
            case Task():
                self.heads[record.task_id] = record
            case RevisionRow():
                self.revisions[record.task_id, record.revision] = record.spec
            case Limit():
                self.limits[record.key] = record.capacity
            case Worker():
                self.spoken[record.name] = record
            case WorkerToken():
                self.tokens[record.digest] = record
            case Audit():
                self.trail.append(record)
            case Removed():
                del self.triggers[record.trigger_id]

    # Candidates

    def _page(self, ranked: list[tuple[Any, str]], limit: int) -> Page:
        ids = tuple(run_id for _, run_id in sorted(ranked))
        return Page(ids[:limit], len(ids) > limit)

    async def due(self) -> Due:
        recover, retry = await self.recover_page(1), await self.retry_page(1)
        trigger = await self.trigger_page(1)
        rows = [queue_row(one.run) for one in self.aggregates.values()]
        offers = tuple(sorted({row.placement for row in rows if row}))
        return Due(bool(recover.ids), bool(retry.ids), bool(trigger.ids), None, offers)

    async def recover_page(self, limit: int, *, hold_claimed: bool = False) -> Page:
        now = self.clock.wall_ms()
        leases = [
            one.lease
            for one in self.aggregates.values()
            if one.lease is not None and not (hold_claimed and one.attempt.status == "claimed")
        ]
        return self._page([(one.judge_ms, one.run_id) for one in leases if one.judge_ms <= now], limit)

    async def retry_page(self, limit: int) -> Page:
        now = self.clock.wall_ms()
        moments = [(due_ms(one.run), run_id) for run_id, one in self.aggregates.items()]
        due = [(moment, run_id) for moment, run_id in moments if moment is not None and moment <= now]
        if due:
            return self._page(due, limit)
        gates = [self.gate(key) for key in {key for one in self.aggregates.values() for key in one.run.gates}]
        held = {gate.waiting[0] for gate in gates if gate.room > 0 and gate.waiting}
        return self._page([("", run_id) for run_id in held], limit)

    async def trigger_page(self, limit: int) -> Page:
        now = self.clock.wall_ms()
        due = [one for one in self.triggers.values() if one.next_ms is not None and one.next_ms <= now]
        return self._page([(one.next_ms, one.trigger_id) for one in due], limit)

    async def unstarted_of_removed(self) -> Page:
        open_states = {"created", "queued", "retry_wait", "lost"}
        gone = {task_id for task_id, head in self.heads.items() if head.removed_ms is not None}
        found = [
            ("", run_id)
            for run_id, one in self.aggregates.items()
            if one.run.task_id in gone and one.run.state in open_states
        ]
        return self._page(found, 64)

    async def specs(self, wanted: tuple[tuple[str, int], ...]) -> dict[tuple[str, int], bytes]:
        return {pair: self.revisions[pair] for pair in wanted}

    def _leases(self, worker: str) -> list[Lease]:
        held = (one.lease for one in self.aggregates.values())
        return [lease for lease in held if lease is not None and lease.worker == worker]

    async def leases_of(self, worker: str) -> tuple[Lease, ...]:
        return tuple(self._leases(worker))

    async def worker_of_token(self, digest: str) -> str | None:
        token = self.tokens.get(digest)
        return None if token is None or token.revoked_ms is not None else token.worker

    def on_commit(self, listener: Callable[[Hints], None]) -> None:
        self.listeners.append(listener)

    # Queries

    async def task(self, project: str, name: str) -> TaskView | None:
        for head in self.heads.values():
            if (head.project, head.name) == (project, name) and head.removed_ms is None:
                return TaskView(head, self.revisions[head.task_id, head.revision], (), None, 0)
        return None

    async def run(self, run_id: str) -> RunView | None:
        found = self.aggregates.get(run_id)
        if found is None:
            return None
        attempts = tuple(self.attempts[ref] for ref in sorted(self.attempts) if ref.run_id == run_id)
        return RunView(found.run, attempts, found.lease, tuple(self.events_of[run_id]), (), 0)

    def all_runs(self) -> list[Run]:
        return [one.run for one in self.aggregates.values()]


class MemoryStore:
    """What :class:`support.plane.Plane` needs of a store."""

    def __init__(self, clock: FakeClock) -> None:
        self.clock = clock
        self.ledger = MemoryLedger(clock)
        self.queries = self.ledger
