"""Step 1, recover: judge Attempts whose Lease ran out, or about which there is new evidence (design section 9)."""

from __future__ import annotations

from qinglong.control.deps import Deps
from qinglong.domain import recovery
from qinglong.domain.admission import promote
from qinglong.domain.change import Change, Draft
from qinglong.domain.records import Evidence
from qinglong.errors import Conflict
from qinglong.ledger.port import Keys


class Recover:
    """One page of candidates, each in a short transaction of its own."""

    def __init__(self, deps: Deps, limit: int) -> None:
        self._deps = deps
        self._limit = limit
        self.verdicts: dict[str, int] = {}
        """Verdicts so far, by the kind of Event they made; ``kept`` made none."""
        self.raced = 0
        """Candidates that somebody else decided first; never a failure."""

    async def step(self, *, hold_claimed: bool = False) -> bool:
        """Judge a page, after a gap without the claims; whether anything was decided, which asks for a follow-up.

        The whole page is tried; then the first failure is raised (I7).
        """
        page = await self._deps.ledger.recover_page(self._limit, hold_claimed=hold_claimed)
        failure: Exception | None = None
        decided = 0
        for run_id in page.ids:
            try:
                decided += await self._judge(run_id)
            except Conflict:
                self.raced += 1
            except Exception as error:
                failure = failure or error
        if failure is not None:
            raise failure
        return decided > 0

    async def _judge(self, run_id: str) -> bool:
        jitter = self._deps.rng.fraction()

        def decide(draft: Draft) -> str:
            found = draft.get(run_id)
            answer = newest(draft.evidence.get(run_id, ()))
            if found is None:
                return ""
            verdict = recovery.judge(found, answer, draft.now_ms, jitter)
            if not isinstance(verdict, Change):
                return ""
            draft.apply(verdict)
            promote(draft)
            return verdict.events[-1].kind if verdict.events else "kept"

        keys = Keys(runs=(run_id,), raced=True, frees=True, evidence=True)
        kind = await self._deps.ledger.transact(keys, decide)
        if kind:
            self.verdicts[kind] = self.verdicts.get(kind, 0) + 1
        return bool(kind)


def newest(evidence: tuple[Evidence, ...]) -> Evidence | None:
    """The answer that came last, by what it speaks about; clocks step back."""
    return max(
        evidence,
        key=lambda answer: (answer.attempt, answer.generation, answer.version, answer.at_ms),
        default=None,
    )
