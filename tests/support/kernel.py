"""Short words for what tests do to a ledger directly: one transaction each, by the real rules."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from qinglong.domain import activation, dispatch, ending
from qinglong.domain.admission import Admission, promote
from qinglong.domain.change import Aggregate, Change, Draft, Refusal
from qinglong.domain.completion import Result, complete
from qinglong.domain.definitions import FileSet, TaskSpec
from qinglong.domain.occurring import place
from qinglong.domain.publishing import publish
from qinglong.domain.records import Session, Task
from qinglong.ledger.port import Keys, Ledger
from support.builders import LEASE_MS, accepted, fence, run_id, session, spec, want
from support.clock import T0

T = TypeVar("T")


class Kernel:
    """Drives a ledger through the rules; every method is one transaction and returns what it made."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self.tasks: dict[str, Task] = {}
        self.runs = 0
        self.offers = 0

    def now(self, *works: Coroutine[Any, Any, T]) -> list[T]:
        """Results of several coroutines at once."""

        async def all_of() -> list[T]:
            return list(await asyncio.gather(*works))

        return asyncio.run(all_of())

    def transact(self, keys: Keys, decide: Callable[[Draft], T]) -> T:
        return self.now(self.ledger.transact(keys, decide))[0]

    def publish(self, *specs: TaskSpec, project: str = "default", **fields: Any) -> None:
        numbers = iter(range(10**6))

        def decide(draft: Draft) -> list[Task]:
            publish(
                draft,
                FileSet(project=project, tasks=specs, **fields),
                "test",
                lambda: f"{draft.now_ms:013}-{len(self.tasks):04}-{next(numbers):06}",
            )
            return [record for record in draft.puts if isinstance(record, Task)]

        for head in self.transact(Keys(project=project), decide):
            self.tasks[head.name] = head

    def admit(self, name: str = "backup", **fields: Any) -> str:
        """The id of an admitted Run."""
        answer = self.now(self.admitting(name, **fields))[0]
        assert isinstance(answer, Change), answer
        return answer.after.run.run_id

    async def admitting(self, name: str = "backup", **fields: Any) -> Change | Refusal:
        self.runs += 1
        number = fields.pop("number", self.runs)
        task_id = self.tasks[name].task_id

        def decide(draft: Draft) -> Change | Refusal:
            head, of = draft.tasks[task_id]
            answer = place(
                draft, Admission(run_id(number), head, of, fields.pop("cause", "manual"), **fields)
            )
            promote(draft)
            return answer

        return await self.ledger.transact(Keys(tasks=(task_id,)), decide)

    def register(self, worker: str = "w1", **fields: Any) -> Session:
        new = session(worker, **fields)

        def decide(draft: Draft) -> Session:
            draft.session = new
            return new

        return self.transact(Keys(worker=worker), decide)

    def change(
        self, run: str, rule: Callable[[Draft, Aggregate], Change | Refusal], **keys: Any
    ) -> Aggregate:
        """Apply a rule to one Run; fails on a Refusal."""

        def decide(draft: Draft) -> Aggregate:
            found = draft.get(run)
            assert found is not None
            answer = rule(draft, found)
            accepted(answer)
            assert isinstance(answer, Change)
            draft.apply(answer)
            promote(draft)
            return draft.aggregates[run]

        return self.transact(Keys(runs=(run,), frees=True, **keys), decide)

    def grant(self, run: str, worker: str = "w1") -> Aggregate:
        self.offers += 1
        number = self.offers

        def rule(draft: Draft, found: Aggregate) -> Change | Refusal:
            who = draft.session or session(worker)
            return dispatch.grant(found, who, want(number), draft.next_fence(), draft.now_ms, LEASE_MS)

        return self.change(run, rule, worker=worker, fences=True)

    def start(self, run: str) -> Aggregate:
        return self.change(
            run, lambda draft, found: activation.starting(found, fence(found), draft.now_ms, LEASE_MS)
        )

    def run(self, run: str) -> Aggregate:
        return self.change(
            run, lambda draft, found: activation.running(found, fence(found), draft.now_ms, LEASE_MS, {})
        )

    def end(self, run: str, exit_code: int = 0) -> Aggregate:
        result = Result(exit_code=exit_code)
        return self.change(run, lambda draft, found: complete(found, fence(found), result, draft.now_ms, 0.0))

    def cancel(self, run: str) -> Aggregate:
        return self.change(run, lambda draft, found: ending.cancel(found, "ann", "", draft.now_ms))

    def get(self, run: str) -> Aggregate | None:
        return self.transact(Keys(runs=(run,)), lambda draft: draft.get(run))


__all__ = ["T0", "Kernel", "spec"]
