"""Offers: queued Runs handed to a Session, capacity decided under the Session's row."""

from __future__ import annotations

from typing import NamedTuple

from qinglong.control.deps import Deps
from qinglong.domain import definitions, dispatch, sessions
from qinglong.domain.change import Aggregate, Change, Draft, Refusal
from qinglong.domain.definitions import TaskSpec
from qinglong.domain.dispatch import Want
from qinglong.domain.records import Session
from qinglong.errors import Conflict
from qinglong.ledger.port import Keys, Pull
from qinglong.limits import CLAIMS_PER_SYNC
from qinglong.wire.worker import Offer, SessionWord, Sync

_Granted = tuple[Aggregate, int]
"""A Run with its Lease, and how long that still lives."""
_CACHED = 256
"""Pinned revisions that are kept decoded; immutable, so never stale."""
_SEEN = 4_096
"""Sessions that are remembered; one that is not costs a read."""


class Pulled(NamedTuple):
    """What a pull brought."""

    offers: tuple[Offer, ...] = ()
    word: SessionWord = ""


class _Seen(NamedTuple):
    session: Session
    boot_ms: int


class Offers:
    """Keeps Sessions alive and grants Leases to workers that pull."""

    def __init__(self, deps: Deps) -> None:
        self._deps = deps
        self._cache: dict[tuple[str, int], TaskSpec] = {}
        self._seen: dict[str, _Seen] = {}
        self.granted = 0
        """Leases granted so far."""

    def seen(self, worker: str) -> Session | None:
        """The worker's Session as this process saw it last; a hint."""
        found = self._seen.get(worker)
        return None if found is None else found.session

    def forget(self, worker: str) -> None:
        """What was seen of the worker's Session does not hold any more."""
        self._seen.pop(worker, None)

    async def heartbeat(self, worker: str, request: Sync) -> Pulled:
        """Keep the Session alive; nothing is read while this process saw it less than a renewal ago."""
        seen = self._seen.get(worker)
        if seen is not None and self._is_fresh(seen, request):
            return Pulled()
        word = await self._deps.ledger.transact(
            Keys(worker=worker), lambda draft: self._alive(draft, worker, request)
        )
        return Pulled((), word)

    def _is_fresh(self, seen: _Seen, request: Sync) -> bool:
        session = seen.session
        same = (session.session_id, session.generation) == (request.session_id, request.generation)
        return same and self._deps.clock.boot_ms() - seen.boot_ms < self._deps.times.renew_ms

    def _alive(self, draft: Draft, worker: str, request: Sync) -> SessionWord:
        session = sessions.heartbeat(
            draft.session,
            request.session_id,
            request.generation,
            draft.now_ms,
            self._deps.times.session_ms,
        )
        if isinstance(session, Refusal):
            self.forget(worker)
            return "session_replaced" if session.code == "session_replaced" else "session_unknown"
        draft.session = session
        word: SessionWord = draft.worker.cordon if draft.worker is not None else ""
        if word:
            self.forget(worker)  # an operator may take it back at any moment
        else:
            self._remember(session)
        return word

    def _remember(self, session: Session) -> None:
        if len(self._seen) >= _SEEN:
            self._seen.clear()
        self._seen[session.worker] = _Seen(session, self._deps.clock.boot_ms())

    async def pull(self, worker: str, request: Sync, placements: tuple[str, ...]) -> Pulled:
        """At most as many offers as the worker has free slots and wants, of Runs with these placement keys.

        A want that was granted before gets the same offer again: the reply was lost.
        """
        room = min(request.free_slots, len(request.wants), CLAIMS_PER_SYNC)
        if room <= 0:
            return await self.heartbeat(worker, request)
        wants = {want.offer_id: want for want in request.wants[:room]}
        keys = Keys(worker=worker, fences=True, pull=Pull(2 * room, placements, tuple(wants)))

        def decide(draft: Draft) -> tuple[list[_Granted], list[_Granted], SessionWord]:
            word = self._alive(draft, worker, request)
            if draft.session is None or word in {"session_unknown", "session_replaced"}:
                return [], [], word
            left = dict(wants)
            again = _again(draft, worker, request, left)
            granted, refusal = self._grant(draft, draft.session, request, left)
            return again, granted, "probation" if refusal == "probation" else word

        try:
            again, granted, word = await self._deps.ledger.transact(keys, decide)
        except Conflict:
            return Pulled()
        self.granted += len(granted)
        return Pulled(await self._offers([*again, *granted]), word)

    def _grant(
        self, draft: Draft, session: Session, request: Sync, wants: dict[str, Want]
    ) -> tuple[list[_Granted], str]:
        times = self._deps.times
        pulled = sessions.pull(session, draft.worker, request.seq, draft.now_ms, times.session_ms)
        if isinstance(pulled, Refusal):
            return [], pulled.code
        room = sessions.claims(session, session.max_runs - len(draft.held))
        left = iter([want for offer_id, want in wants.items() if offer_id not in draft.held][: max(room, 0)])
        want = next(left, None)
        granted: list[_Granted] = []
        for run_id in draft.offered:
            found = draft.get(run_id)
            if want is None:
                break
            if found is None:
                continue
            change = dispatch.grant(found, pulled, want, draft.fence + 1, draft.now_ms, times.lease_ms)
            if not isinstance(change, Change):
                continue
            draft.next_fence()
            draft.apply(change)
            granted.append((change.after, times.lease_ms))
            want = next(left, None)
        if granted:
            draft.session = pulled
            self._remember(pulled)
        return granted, ""

    async def _offers(self, granted: list[_Granted]) -> tuple[Offer, ...]:
        if not granted:
            return ()
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


def _again(draft: Draft, worker: str, request: Sync, wants: dict[str, Want]) -> list[_Granted]:
    """What this session was granted for these wants and has not begun. A taken offer id is granted to nobody else."""
    again: list[_Granted] = []
    for run_id in draft.again:
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
