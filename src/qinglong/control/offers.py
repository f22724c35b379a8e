"""Offers: queued Runs handed to a Session, capacity decided under the Session's row."""

from __future__ import annotations

from qinglong.control.deps import Deps
from qinglong.domain import definitions, dispatch, sessions
from qinglong.domain.change import Aggregate, Change, Draft, Refusal
from qinglong.domain.definitions import TaskSpec
from qinglong.domain.dispatch import Want
from qinglong.errors import Conflict
from qinglong.ledger.port import Keys, Page
from qinglong.limits import CLAIMS_PER_SYNC, OFFER_CANDIDATES
from qinglong.wire.worker import Offer, Sync

_Granted = tuple[Aggregate, int]
"""A Run with its Lease, and how long that still lives."""
_CACHED = 256
"""Pinned revisions that are kept decoded; immutable, so never stale."""


class Offers:
    """Grants Leases to a worker that pulls."""

    def __init__(self, deps: Deps) -> None:
        self._deps = deps
        self._cache: dict[tuple[str, int], TaskSpec] = {}
        self.granted = 0
        """Leases granted so far."""

    async def pull(self, worker: str, request: Sync) -> tuple[Offer, ...]:
        """At most as many offers as the worker has free slots and wants. Nothing to offer costs one read.

        A want that was granted before gets the same offer again: the reply was lost.
        """
        room = min(request.free_slots, len(request.wants), CLAIMS_PER_SYNC)
        if room <= 0:
            return ()
        wants = {want.offer_id: want for want in request.wants[:room]}
        page = await self._deps.ledger.offer_page(min(2 * room, OFFER_CANDIDATES), tuple(wants))
        if not (page.ids or page.granted):
            return ()
        keys = Keys(worker=worker, runs=(*page.granted, *page.ids), fences=True, held=True)

        def decide(draft: Draft) -> tuple[list[_Granted], list[_Granted]]:
            left = dict(wants)
            again = _again(draft, worker, request, left, page)
            return again, self._grant(draft, request, left, page.ids)

        try:
            again, granted = await self._deps.ledger.transact(keys, decide)
        except Conflict:
            return ()
        self.granted += len(granted)
        return await self._offers([*again, *granted])

    def _grant(
        self, draft: Draft, request: Sync, wants: dict[str, Want], ids: tuple[str, ...]
    ) -> list[_Granted]:
        times = self._deps.times
        session = sessions.pull(
            draft.session,
            request.session_id,
            request.generation,
            request.seq,
            draft.now_ms,
            times.session_ms,
        )
        if isinstance(session, Refusal):
            return []
        room = session.max_runs - len(draft.held)
        wants = {offer_id: want for offer_id, want in wants.items() if offer_id not in draft.held}
        granted: list[_Granted] = []
        for run_id in ids:
            found = draft.get(run_id)
            if found is None or not wants or room <= len(granted):
                continue
            want = next(iter(wants.values()))
            change = dispatch.grant(found, session, want, draft.fence + 1, draft.now_ms, times.lease_ms)
            if not isinstance(change, Change):
                continue
            draft.next_fence()
            draft.apply(change)
            granted.append((change.after, times.lease_ms))
            del wants[want.offer_id]
        if granted:
            draft.session = session
        return granted

    async def _offers(self, granted: list[_Granted]) -> tuple[Offer, ...]:
        specs = await self._specs(tuple({(found.run.task_id, found.run.revision) for found, _ in granted}))
        return tuple(_offer(found, left, specs) for found, left in granted)

    async def _specs(self, pairs: tuple[tuple[str, int], ...]) -> dict[tuple[str, int], TaskSpec]:
        missing = tuple(pair for pair in pairs if pair not in self._cache)
        if missing:
            found = await self._deps.ledger.specs(missing)
            kept = {} if len(self._cache) > _CACHED else self._cache
            kept.update({pair: self._cache[pair] for pair in pairs if pair in self._cache})
            kept.update({pair: definitions.decode(raw) for pair, raw in found.items()})
            self._cache = kept
        return {pair: self._cache[pair] for pair in pairs}


def _again(draft: Draft, worker: str, request: Sync, wants: dict[str, Want], page: Page) -> list[_Granted]:
    """What this session was granted for these wants and has not begun. A taken offer id is granted to nobody else."""
    again: list[_Granted] = []
    for run_id in page.granted:
        found = draft.get(run_id)
        if found is None or found.lease is None:
            continue
        lease, want = found.lease, wants.pop(found.lease.offer_id, None)
        same = want is not None and want.token_digest == lease.token_digest and lease.worker == worker
        if same and lease.session_id == request.session_id and found.attempt.status == "claimed":
            again.append((found, max(lease.expires_ms - draft.now_ms, 0)))
    return again


def _offer(found: Aggregate, left_ms: int, specs: dict[tuple[str, int], TaskSpec]) -> Offer:
    run, lease = found.run, found.lease
    assert lease is not None
    return Offer(
        run_id=run.run_id,
        step=lease.step,
        attempt=lease.attempt,
        offer_id=lease.offer_id,
        generation=lease.generation,
        version=lease.version,
        lease_in_ms=left_ms,
        task=run.task,
        spec=specs[run.task_id, run.revision],
        fence=found.attempt.fence,
        scheduled_ms=run.scheduled_ms,
        on_lease_loss=run.policy.on_lease_loss,
    )
