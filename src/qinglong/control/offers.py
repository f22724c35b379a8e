"""Offers: queued Runs handed to a Session, capacity decided under the Session's row."""

from __future__ import annotations

from qinglong.control.deps import Deps
from qinglong.domain import definitions, dispatch, sessions
from qinglong.domain.change import Change, Draft, Refusal
from qinglong.domain.definitions import TaskSpec
from qinglong.domain.records import Lease, Run
from qinglong.ledger.port import Keys
from qinglong.limits import CLAIMS_PER_SYNC, OFFER_CANDIDATES
from qinglong.wire.worker import Offer, Sync

_Granted = tuple[Run, Lease, int]
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
        """At most as many offers as the worker has free slots and wants. Nothing to offer costs one read."""
        room = min(request.free_slots, len(request.wants), CLAIMS_PER_SYNC)
        if room <= 0:
            return ()
        page = await self._deps.ledger.offer_page(min(2 * room, OFFER_CANDIDATES))
        if not page.ids:
            return ()
        keys = Keys(worker=worker, runs=page.ids, fences=True)

        def decide(draft: Draft) -> list[_Granted]:
            return self._grant(draft, request, page.ids, room)

        granted = await self._deps.ledger.transact(keys, decide)
        self.granted += len(granted)
        return await self._offers(granted)

    def _grant(self, draft: Draft, request: Sync, ids: tuple[str, ...], room: int) -> list[_Granted]:
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
        granted: list[_Granted] = []
        wants = iter(request.wants[:room])
        want = next(wants, None)
        for run_id in ids:
            found = draft.get(run_id)
            if found is None or want is None:
                continue
            change = dispatch.grant(found, session, want, draft.fence + 1, draft.now_ms, times.lease_ms)
            if not isinstance(change, Change):
                continue
            draft.next_fence()
            draft.apply(change)
            assert change.after.lease is not None
            granted.append((change.after.run, change.after.lease, change.after.attempt.fence))
            want = next(wants, None)
        if granted:
            draft.session = session
        return granted

    async def _offers(self, granted: list[_Granted]) -> tuple[Offer, ...]:
        pairs = tuple({(run.task_id, run.revision) for run, _, _ in granted})
        specs = await self._specs(pairs)
        return tuple(
            Offer(
                run_id=run.run_id,
                step=lease.step,
                attempt=lease.attempt,
                offer_id=lease.offer_id,
                generation=lease.generation,
                version=lease.version,
                lease_in_ms=self._deps.times.lease_ms,
                task=run.task,
                spec=specs[run.task_id, run.revision],
                fence=fence,
                scheduled_ms=run.scheduled_ms,
                on_lease_loss=run.policy.on_lease_loss,
            )
            for run, lease, fence in granted
        )

    async def _specs(self, pairs: tuple[tuple[str, int], ...]) -> dict[tuple[str, int], TaskSpec]:
        missing = tuple(pair for pair in pairs if pair not in self._cache)
        if missing:
            found = await self._deps.ledger.specs(missing)
            if len(self._cache) > _CACHED:
                self._cache.clear()
            self._cache.update({pair: definitions.decode(raw) for pair, raw in found.items()})
        return {pair: self._cache[pair] for pair in pairs}
