"""Step 2, retry: settle lost Runs, admit due retries, apply deadlines, sweep held Runs (design section 10)."""

from __future__ import annotations

from qinglong.control.deps import Deps
from qinglong.domain.admission import promote
from qinglong.domain.change import Change, Draft
from qinglong.domain.settling import settle
from qinglong.errors import Conflict
from qinglong.ledger.port import Keys


class Retry:
    """One page of Runs, each in a short transaction of its own."""

    def __init__(self, deps: Deps, limit: int) -> None:
        self._deps = deps
        self._limit = limit
        self.outcomes: dict[str, int] = {}
        """What was done so far, by the kind of Event."""
        self.raced = 0

    async def step(self) -> bool:
        """Settle a page; whether anything was decided, which asks for a follow-up.

        The whole page is tried; then the first failure is raised (I7).
        """
        page = await self._deps.ledger.retry_page(self._limit)
        failure: Exception | None = None
        decided = 0
        for run_id in page.ids:
            try:
                decided += await self._settle(run_id)
            except Conflict:
                self.raced += 1
            except Exception as error:
                failure = failure or error
        if failure is not None:
            raise failure
        return decided > 0

    async def _settle(self, run_id: str) -> bool:
        jitter = self._deps.rng.fraction()

        def decide(draft: Draft) -> str:
            found = draft.get(run_id)
            change = None if found is None else settle(draft, found, jitter)
            if not isinstance(change, Change):
                return ""
            draft.apply(change)
            promote(draft)
            return change.events[-1].kind

        kind = await self._deps.ledger.transact(Keys(runs=(run_id,), raced=True, frees=True), decide)
        if kind:
            self.outcomes[kind] = self.outcomes.get(kind, 0) + 1
        return bool(kind)
