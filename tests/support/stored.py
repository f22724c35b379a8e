"""A ledger with records that the rules themselves put there."""

from __future__ import annotations

import asyncio
from typing import Any

from qinglong.domain import activation, definitions, dispatch
from qinglong.domain.admission import admit, gate_keys
from qinglong.domain.change import Aggregate, Change
from qinglong.domain.completion import Result, complete
from qinglong.domain.records import RevisionRow
from qinglong.ledger.port import Keys
from support.builders import LEASE_MS, fence, session, spec, task, want, wish


class Bench:
    """Each method is one transaction; ``go`` drives anything else."""

    def __init__(self, store: Any) -> None:
        self.store, self.clock = store, store.clock
        self.ledger, self.queries = store.ledger, store.queries
        self._runner = asyncio.Runner()

    def go(self, work: Any) -> Any:
        return self._runner.run(work)

    def transact(self, keys: Keys, decide: Any) -> Any:
        return self.go(self.ledger.transact(keys, decide))

    def close(self) -> None:
        self._runner.close()

    def put(self, *records: Any) -> None:
        """Store records that stand beside Runs."""
        self.transact(Keys(), lambda draft: draft.puts.extend(records))

    def define(self, *specs: Any, **fields: Any) -> None:
        """The heads and first revisions of these specs."""
        for one in specs:
            head = task(one, **fields)
            self.put(
                head, RevisionRow(head.task_id, 1, head.digest, definitions.encode(one), self.clock.wall)
            )

    def admitted(self, number: int = 1, of: Any = None, **fields: Any) -> str:
        """A Run of a defined spec."""
        of = of or spec()
        head = task(of)

        def decide(draft: Any) -> str:
            change = admit(draft, wish(of, number, **fields))
            assert isinstance(change, Change), change
            draft.apply(change)
            return change.after.run.run_id

        return str(self.transact(Keys(tasks=(head.task_id,), gates=gate_keys(head, of)), decide))

    def change(self, run_id: str, rule: Any) -> Aggregate:
        """Apply a rule to a stored Run."""

        def decide(draft: Any) -> Aggregate:
            answer = rule(draft.get(run_id), draft.now_ms)
            assert isinstance(answer, Change), answer
            draft.apply(answer)
            return answer.after

        found: Aggregate = self.transact(Keys(runs=(run_id,), frees=True), decide)
        return found

    def claimed(self, run_id: str, number: int = 1, **fields: Any) -> Aggregate:
        who = session(**fields)
        return self.change(
            run_id, lambda found, now: dispatch.grant(found, who, want(number), number, now, LEASE_MS)
        )

    def started(self, run_id: str) -> Aggregate:
        return self.change(run_id, lambda found, now: activation.starting(found, fence(found), now, LEASE_MS))

    def ended(self, run_id: str, code: int = 0) -> Aggregate:
        result = Result(exit_code=code)
        return self.change(run_id, lambda found, now: complete(found, fence(found), result, now, 0.0))

    def through(self, run_id: str, code: int = 0, number: int = 1) -> Aggregate:
        """From the offer to the end."""
        self.claimed(run_id, number)
        self.started(run_id)
        return self.ended(run_id, code)
