"""A control plane over a ledger, and a worker that only talks: no process is ever started."""

from __future__ import annotations

import asyncio
import hashlib
from itertools import count
from typing import Any

from qinglong.control.app import ControlPlane
from qinglong.control.definitions import Publisher
from qinglong.control.deps import STANDALONE, Budgets, Deps, LeaseTimes
from qinglong.control.service import LogChunk
from qinglong.domain.completion import Result
from qinglong.domain.definitions import FileSet, TaskSpec
from qinglong.domain.dispatch import Want
from qinglong.domain.publishing import Published
from qinglong.effects import Ids
from qinglong.wire.worker import Answer, Claim, Offer, Register, Registered, Reply, Report, Sync
from support.clock import FakeClock, FakeRng


class NoLogs:
    """No Attempt has a log."""

    async def read(self, run_id: str, step: str, number: int, offset: int, limit: int) -> LogChunk | None:
        return None


class Plane:
    """The control objects of one process over a :class:`support.store.Store` or one in memory.

    Make another over the same store to restart them.
    """

    def __init__(
        self,
        store: Any,
        budgets: Budgets = STANDALONE,
        times: LeaseTimes | None = None,
        ledger: Any = None,
        seed: int = 1,
    ) -> None:
        self.store = store
        self.clock: FakeClock = store.clock
        rng = FakeRng(seed)
        self.deps = Deps(ledger or store.ledger, self.clock, rng, Ids(self.clock, rng), times or LeaseTimes())
        self.control = ControlPlane(self.deps, budgets, store.queries, NoLogs())
        self.publisher = Publisher(self.deps, self.control.cycle.trigger)
        self.workers = self.control.workers

    async def publish(self, *tasks: TaskSpec, boot: str = "boot-1", **fields: Any) -> Published:
        return await self.publisher.publish(FileSet(tasks=tasks, **fields), "test", boot)

    async def cycle(self) -> tuple[bool, int | None]:
        return await self.control.cycle.run()

    async def settle(self, most: int = 1_000) -> int:
        """Cycles until none asks for a follow-up; how many it took."""
        for number in range(1, most + 1):
            again, _ = await self.cycle()
            if not again:
                return number
        raise AssertionError(f"{most} cycles, and still more to do")

    async def run(self, task: str, **fields: Any) -> str:
        fields.setdefault("by", "tester")
        return (await self.control.run("default", task, **fields)).run_id

    async def state(self, run_id: str) -> str:
        view = await self.store.queries.run(run_id)
        assert view is not None
        return view.run.state


class Worker:
    """Speaks the worker protocol; what it has been offered is in ``held`` by run id."""

    _numbers = count(1)

    def __init__(self, plane: Plane, name: str = "w1", max_runs: int = 4, journal: str = "") -> None:
        self.plane = plane
        self.name = name
        self.max_runs = max_runs
        self.journal = journal or f"{name}-journal"
        self.session_id = f"{name}-session-{next(self._numbers)}"
        self.generation = 0
        self.seq = 0
        self.held: dict[str, Claim] = {}
        self.offers: dict[str, Offer] = {}

    async def register(self, revision: int = 1) -> Registered:
        said = Register(self.session_id, self.journal, revision, self.max_runs, "host")
        registered = await self.plane.workers.register(self.name, said)
        self.generation = registered.generation
        return registered

    def token(self, offer_id: str) -> str:
        return hashlib.sha256(f"{self.journal}:{offer_id}".encode()).hexdigest()

    def wants(self, number: int) -> tuple[Want, ...]:
        ids = [f"{self.session_id}-{next(self._numbers)}" for _ in range(number)]
        return tuple(
            Want(offer_id, hashlib.sha256(bytes.fromhex(self.token(offer_id))).hexdigest())
            for offer_id in ids
        )

    async def sync(self, *reports: Report, **fields: Any) -> Reply:
        self.seq += 1
        fields.setdefault("seq", self.seq)
        request = Sync(self.session_id, self.generation, reports=reports, **fields)
        reply = await self.plane.workers.sync(self.name, request, asyncio.Event())
        for report, answer in zip(reports, reply.answers, strict=True):
            self._heard(report, answer)
        for offer in reply.offers:
            self.accept(offer)
        return reply

    def accept(self, offer: Offer) -> Claim:
        claim = Claim(
            offer.run_id,
            offer.step,
            offer.attempt,
            offer.offer_id,
            offer.generation,
            offer.version,
            self.token(offer.offer_id),
        )
        self.held[offer.run_id], self.offers[offer.run_id] = claim, offer
        return claim

    def _heard(self, report: Report, answer: Answer) -> None:
        claim = self.held.get(report.claim.run_id)
        if claim is not None and answer.outcome != "refused" and answer.version > claim.version:
            self.held[claim.run_id] = Claim(
                claim.run_id,
                claim.step,
                claim.attempt,
                claim.offer_id,
                claim.generation,
                answer.version,
                claim.token,
            )

    async def pull(self, slots: int = 1, **fields: Any) -> list[str]:
        """Run ids of what was offered."""
        fields.setdefault("wants", self.wants(slots))
        reply = await self.sync(free_slots=slots, **fields)
        return [offer.run_id for offer in reply.offers]

    async def say(self, kind: Any, run_id: str, **fields: Any) -> Answer:
        reply = await self.sync(Report(kind, self.held[run_id], **fields))
        return reply.answers[0]

    async def begin(self, run_id: str) -> None:
        """Through the start barrier, and running."""
        for kind in ("starting", "running"):
            answer = await self.say(kind, run_id)
            assert answer.outcome == "ok", answer

    async def end(self, run_id: str, exit_code: int = 0, **fields: Any) -> Answer:
        return await self.say("completed", run_id, result=Result(exit_code=exit_code, **fields))

    async def work(self, run_id: str, exit_code: int = 0) -> None:
        """From the offer to the end."""
        await self.begin(run_id)
        answer = await self.end(run_id, exit_code)
        assert answer.outcome == "ok", answer
