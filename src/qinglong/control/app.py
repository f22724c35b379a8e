"""The control plane of one process: everything a person can ask for, over the ledger's ports."""

from __future__ import annotations

import hashlib
from collections.abc import Callable

import msgspec

from qinglong.control.cadence import Cadence
from qinglong.control.cycle import Cycle
from qinglong.control.deps import Budgets, Deps
from qinglong.control.door import Door
from qinglong.control.service import Logs
from qinglong.control.sync import WorkerDoor
from qinglong.control.wakes import Wakes
from qinglong.domain import ending
from qinglong.domain.admission import Admission, promote
from qinglong.domain.change import Aggregate, Draft, Refusal
from qinglong.domain.occurring import place
from qinglong.domain.records import Run, RunKey
from qinglong.errors import Conflict, Invalid, NotFound, Refused
from qinglong.ledger.port import Hints, Keys, Queries

_OVERLAP_REMEDY = "wait for it, cancel it, or override with --allow-overlap"


class ControlPlane:
    """Implements ``control.service.Control`` and owns the parts that a profile starts and stops."""

    def __init__(self, deps: Deps, budgets: Budgets, queries: Queries, logs: Logs) -> None:
        self._deps = deps
        self.queries = queries
        self.logs = logs
        self.door = Door(deps.clock)
        self.wakes = Wakes()
        self.cycle = Cycle(deps, budgets, self.door, self.wakes)
        self.cadence = Cadence(self.cycle, deps.clock)
        self.workers = WorkerDoor(deps, self.door, self.wakes, lone=budgets.local_runs > 0)
        self.extra_figures: Callable[[], dict[str, float]] = dict
        self.wakes.on_due = self.cadence.due_at
        deps.ledger.on_commit(self._hint)

    def _hint(self, hints: Hints) -> None:
        if hints.gap:
            self.cycle.gap.noticed()
        self.wakes.hint(hints)

    async def run(
        self, project: str, task: str, *, by: str, allow_overlap: bool = False, key: str = ""
    ) -> Run:
        """See the port. The door does not matter here: an admission is stored and waits (I7)."""
        head = await self.queries.task(project, task)
        if head is None and not key:
            raise _no_task(project, task)
        task_id, run_id = "" if head is None else head.task.task_id, self._deps.ids.new()
        digest = hashlib.sha256(msgspec.json.encode((task, allow_overlap))).hexdigest()
        keys = Keys(tasks=(task_id,) if task_id else (), run_key=(project, key) if key else None)

        def decide(draft: Draft) -> Run | Refusal | str:
            if draft.run_key is not None:
                return _known(draft.run_key, digest)
            head, spec = draft.tasks.get(task_id, (None, None))
            if head is None or spec is None or head.removed_ms is not None:
                return Refusal("task_unknown", f"task {task} was removed")
            wish = Admission(run_id, head, spec, "manual", allow_overlap=allow_overlap, by=by)
            answer = place(draft, wish)
            if isinstance(answer, Refusal):
                return answer
            if key:
                draft.puts.append(RunKey(project, key, digest, run_id))
            promote(draft)
            return draft.aggregates[run_id].run

        answer = await self._deps.ledger.transact(keys, decide)
        if isinstance(answer, Run):
            return answer
        if isinstance(answer, str):
            return await self._existing(answer)
        if answer.code == "task_unknown":
            raise _no_task(project, task)
        if answer.code == "key_reused":
            raise Conflict(answer.code, answer.message, remedy="use a new --key for a new request")
        raise Refused(answer.code, answer.message, remedy=_OVERLAP_REMEDY)

    async def _existing(self, run_id: str) -> Run:
        view = await self.queries.run(run_id)
        if view is None:
            raise NotFound("run_unknown", f"there is no run {run_id}")
        return view.run

    async def cancel(self, run_id: str, *, by: str, reason: str = "") -> Run:
        """See the port. Asking twice is harmless."""

        def decide(draft: Draft) -> Aggregate | Refusal:
            found = draft.get(run_id)
            if found is None:
                return Refusal("run_unknown", f"there is no run {run_id}")
            change = ending.cancel(found, by, reason, draft.now_ms)
            if isinstance(change, Refusal):
                return found if change.code == "already" else change
            draft.apply(change)
            promote(draft)
            return draft.aggregates[run_id]

        answer = await self._deps.ledger.transact(Keys(runs=(run_id,), frees=True), decide)
        if isinstance(answer, Aggregate):
            return answer.run
        if answer.code == "run_unknown":
            raise NotFound(answer.code, answer.message, remedy="see `ql runs`")
        raise Refused(answer.code, answer.message, remedy="a final run never changes (I8)")

    async def find(self, text: str) -> str:
        """See the port."""
        found = await self.queries.find_run(text)
        if not found:
            raise NotFound("run_unknown", f"there is no run {text}", remedy="see `ql runs`")
        if len(found) > 1:
            raise Invalid("run_ambiguous", f"{text} may mean {' or '.join(found)}", remedy="give more of it")
        return found[0]

    async def spec(self, task_id: str, revision: int) -> bytes | None:
        """See the port."""
        return (await self._deps.ledger.specs(((task_id, revision),))).get((task_id, revision))

    async def changed(self, run_id: str, after: int, wait_ms: int) -> int:
        """See the port."""
        waiter = self.wakes.follow(run_id)
        try:
            events = await self.queries.events(run_id, after)
            if events or wait_ms <= 0:
                return events[-1].version if events else after
            await waiter.wait(wait_ms / 1000)
            events = await self.queries.events(run_id, after)
            return events[-1].version if events else after
        finally:
            waiter.close()

    def reasons_not_ready(self) -> tuple[str, ...]:
        """See the port."""
        return self.door.reasons

    def figures(self) -> dict[str, float]:
        """See the port."""
        cycle = self.cycle
        found: dict[str, float] = {
            "door.open": float(self.door.is_open),
            "cycles.ok": cycle.outcomes["ok"],
            "cycles.failed": cycle.outcomes["failed"],
            "raced": cycle.recover.raced + cycle.retry.raced,
            "triggers.settled": cycle.trigger.settled,
            "offers.granted": self.workers.offers.granted,
            "reports.refused": self.workers.reports.refused,
        }
        found.update({f"verdicts.{kind}": count for kind, count in cycle.recover.verdicts.items()})
        found.update({f"skipped.{reason}": count for reason, count in self.wakes.skipped.items()})
        found.update({f"settled.{kind}": count for kind, count in cycle.retry.outcomes.items()})
        found.update(self.extra_figures())
        return found


def _no_task(project: str, task: str) -> NotFound:
    return NotFound("task_unknown", f"there is no task {task} in project {project}", remedy="see `ql tasks`")


def _known(stored: tuple[str, str], digest: str) -> str | Refusal:
    """The Run that this key made, or that the key was used for something else."""
    if stored[0] != digest:
        return Refusal("key_reused", "this key was used for another request")
    return stored[1]
