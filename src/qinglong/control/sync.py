"""The worker's side door: register, sync, transition (design section 6). One instance serves every worker."""

from __future__ import annotations

import asyncio

from qinglong.control.deps import Deps
from qinglong.control.door import Door
from qinglong.control.offers import Offers, Pulled
from qinglong.control.reports import Reports, directives_of
from qinglong.control.wakes import Pulling, Wakes
from qinglong.domain import sessions
from qinglong.domain.change import Draft, Refusal
from qinglong.domain.records import Session
from qinglong.errors import Conflict, Invalid, Unavailable, Unknown
from qinglong.ledger.port import Keys
from qinglong.limits import REPORTS_PER_SYNC
from qinglong.wire.worker import (
    Answer,
    Directive,
    Question,
    Register,
    Registered,
    Reply,
    Sync,
)

_SAID = {"session_unknown", "session_replaced", "draining"}
"""What a worker has to hear at once."""


class WorkerDoor:
    """What a worker can ask of the control plane. ``worker`` is the connection's identity."""

    def __init__(self, deps: Deps, door: Door, wakes: Wakes, *, lone: bool = False) -> None:
        self._deps = deps
        self._door = door
        self._wakes = wakes
        self.offers = Offers(deps)
        self.reports = Reports(deps, self.offers.seen, lone=lone)

    async def register(self, worker: str, said: Register) -> Registered:
        """A new Session, and a question for every live Attempt of the name's earlier ones.

        Raises ``Conflict`` (``name_in_use``).
        """
        introduction = sessions.Introduction(
            said.session_id,
            said.journal_id,
            said.journal_revision,
            said.max_runs,
            said.host,
            said.capabilities,
        )

        def decide(draft: Draft) -> Session | Refusal:
            answer = sessions.register(
                draft.session, worker, introduction, draft.now_ms, self._deps.times.session_ms
            )
            if isinstance(answer, Session):
                draft.session = answer
            return answer

        self.offers.forget(worker)
        answer = await self._deps.ledger.transact(Keys(worker=worker), decide)
        if isinstance(answer, Refusal):
            raise Conflict(answer.code, answer.message)
        leases = await self._deps.ledger.leases_of(worker)
        self._wakes.stops.add(worker)
        return Registered(
            answer.generation,
            self._deps.times.lease_ms,
            self._deps.times.renew_ms,
            tuple(
                Question(
                    lease.run_id,
                    lease.step,
                    lease.attempt,
                    lease.offer_id,
                    lease.generation,
                    lease.version,
                )
                for lease in leases
            ),
        )

    async def former_is_gone(self, worker: str) -> None:
        """The caller proves that the worker's former process has ended: its Session stands in nobody's way."""

        def decide(draft: Draft) -> None:
            if draft.session is None:
                return
            answer = sessions.transition(
                draft.session, draft.session.session_id, draft.session.generation, "offline"
            )
            if isinstance(answer, Session):
                draft.session = answer

        await self._deps.ledger.transact(Keys(worker=worker), decide)
        self.offers.forget(worker)

    async def transition(self, worker: str, session_id: str, generation: int, state: str) -> None:
        """The Session goes draining or offline; a replaced one is left alone."""

        def decide(draft: Draft) -> None:
            answer = sessions.transition(draft.session, session_id, generation, state)
            if isinstance(answer, Session):
                draft.session = answer

        await self._deps.ledger.transact(Keys(worker=worker), decide)
        self.offers.forget(worker)

    async def sync(self, worker: str, request: Sync, poke: asyncio.Event) -> Reply:
        """Reports, then offers; waits up to ``wait_ms`` for something to say, or until ``poke`` is set.

        Renewals commit first and apart, so that a bad report cannot starve them. Raises ``Invalid`` (too many
        reports), ``Unknown``, ``Unavailable``.
        """
        if len(request.reports) > REPORTS_PER_SYNC:
            raise Invalid("too_many_reports", f"at most {REPORTS_PER_SYNC} reports a sync")
        slots = min(request.free_slots, len(request.wants))
        pull = Pulling(worker, self._capabilities(worker), slots)
        with self._wakes.pulling(pull):
            answers, directives = await self._reported(worker, request)
            pulled = Pulled()
            try:
                pulled = await self._pull(worker, request, pull)
                directives += await self._directives(worker)
            except (Unavailable, Unknown):
                if not (answers or pulled.offers):
                    raise  # else what there is to say is said; the next sync asks for the rest
            until = self._deps.clock.boot_ms() + request.wait_ms
            while not (answers or directives or pulled.offers or pulled.word in _SAID or poke.is_set()):
                left_ms = until - self._deps.clock.boot_ms()
                if left_ms <= 0 or not await _either(pull.event, poke, left_ms / 1000):
                    break
                pull.looks()
                pulled = await self._pull(worker, request, pull)
                directives = await self._directives(worker)
        return Reply(
            tuple(answers),
            pulled.offers,
            tuple(dict.fromkeys(directives)),
            self._deps.times.lease_ms,
            pulled.word,
        )

    def _capabilities(self, worker: str) -> dict[str, str]:
        session = self.offers.seen(worker)
        return {} if session is None else session.capabilities

    async def _reported(self, worker: str, request: Sync) -> tuple[list[Answer], list[Directive]]:
        renewals = tuple(report for report in request.reports if report.kind == "renew")
        others = tuple(report for report in request.reports if report.kind != "renew")
        by_report: dict[int, Answer] = {}
        directives: list[Directive] = []
        for group in (renewals, others):
            if not group:
                continue
            answers, more = await self.reports.apply(worker, request.session_id, group)
            by_report.update({id(report): answer for report, answer in zip(group, answers, strict=True)})
            directives += more
        return [by_report[id(report)] for report in request.reports], directives

    async def _pull(self, worker: str, request: Sync, pull: Pulling) -> Pulled:
        if not self._door.is_open:
            return await self.offers.heartbeat(worker, request)
        if self.offers.seen(worker) is None:
            beat = await self.offers.heartbeat(worker, request)
            if beat.word:
                return beat
        pull.capabilities = self._capabilities(worker)
        return await self.offers.pull(worker, request, self._wakes.satisfied(pull.capabilities))

    async def _directives(self, worker: str) -> list[Directive]:
        """Stops that no report of this sync has brought to light; read only after a hint."""
        if worker not in self._wakes.stops:
            return []
        self._wakes.stops.discard(worker)
        try:
            leases = await self._deps.ledger.leases_of(worker)
            ids = tuple(lease.run_id for lease in leases)
            if not ids:
                return []
            return await self._deps.ledger.transact(Keys(runs=ids), lambda draft: directives_of(draft, ids))
        except BaseException:
            self._wakes.stops.add(worker)
            raise


async def _either(first: asyncio.Event, second: asyncio.Event, timeout_s: float) -> bool:
    """Whether ``first`` was set within the time and before ``second``."""
    waiting = {asyncio.ensure_future(event.wait()) for event in (first, second)}
    try:
        await asyncio.wait(waiting, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in waiting:
            task.cancel()
    return first.is_set()
