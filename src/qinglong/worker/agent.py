"""The worker: pulls work, keeps leases alive, drives executions. One sync at a time over one link."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from functools import partial

import msgspec

from qinglong.domain.completion import StoppedBy
from qinglong.domain.dispatch import Want
from qinglong.effects import Clock, Ids
from qinglong.errors import Conflict, QingLongError, Unavailable, Unknown
from qinglong.limits import LEASE_MS, RENEW_MS
from qinglong.wire.worker import Answer, Offer, Register, Reply, Report, Sync
from qinglong.worker.execution import Execution, Observer
from qinglong.worker.host import AttemptKey, Host, Identity
from qinglong.worker.journal import Entry, Journal
from qinglong.worker.link import Link
from qinglong.worker.outbox import Outbox, Pending
from qinglong.worker.reattaching import reattach
from qinglong.worker.uploading import Uploads

log = logging.getLogger("qinglong.worker")
_RETRY_S = 0.5
"""Pause after a sync without an answer."""


class Settings(msgspec.Struct, frozen=True):
    """What distinguishes one worker from another."""

    max_runs: int
    host: str = ""
    idle_wait_ms: int = LEASE_MS // 3
    """Longest pull while nothing runs; a remote worker keeps its session alive with it."""
    capabilities: dict[str, str] = {}


class Agent:
    """Start it, let ``run`` go on, then ``drain`` and ``stop``. Jobs outlive it: their keepers hold them."""

    def __init__(
        self,
        link: Link,
        host: Host,
        journal: Journal,
        clock: Clock,
        ids: Ids,
        settings: Settings,
        uploads: Uploads | None = None,
    ) -> None:
        self._link = link
        self.host = host
        self.journal = journal
        self.clock = clock
        self._ids = ids
        self._settings = settings
        self.uploads = uploads
        self.lease_ms = LEASE_MS
        self._renew_ms = RENEW_MS
        self._poke = asyncio.Event()
        self.outbox = Outbox(self._poke)
        self._session_id = ids.new()
        self._generation = 0
        self._seq = 0
        self._wants: list[Want] = []
        self._executions: dict[AttemptKey, Execution] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._unanswered = 0
        self._all_answered = asyncio.Event()
        self._pulling = True
        self._stopping = False
        self._cut_off = False
        self.observer: Observer | None = None
        self.starts = 0
        """Attempts begun by this process."""

    @property
    def running(self) -> int:
        """Attempts in hand."""
        return len(self._executions)

    @property
    def longest_grace_ms(self) -> int:
        """How long the slowest Attempt in hand may take to end after it was asked to."""
        graces = (execution.entry.spec.stop.grace_ms for execution in self._executions.values())
        return max(graces, default=0)

    async def start(self) -> int:
        """Register and reattach; how many Attempts go on from before. Raises ``Conflict`` (``name_in_use``)."""
        registered = await self._link.register(
            Register(
                self._session_id,
                self.journal.journal_id,
                self.journal.revision,
                self._settings.max_runs,
                self._settings.host,
                self._settings.capabilities,
            )
        )
        self._generation = registered.generation
        self.lease_ms, self._renew_ms = registered.lease_ms, registered.renew_ms
        resumed = reattach(self, registered.questions)
        self._unanswered = resumed
        if not resumed:
            self._all_answered.set()
        return resumed

    async def resumed(self, timeout_s: float) -> None:
        """Return when the control plane has heard about every Attempt from before, or after the time."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._all_answered.wait(), timeout_s)

    def spawn(self, entry: Entry, *, resumed: bool) -> Execution:
        """Drive an entry in a task of its own."""
        execution = Execution(self, entry, self.clock.boot_ms())
        self._executions[entry.key] = execution
        task = asyncio.ensure_future(self._drive(execution, resumed))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return execution

    async def _drive(self, execution: Execution, resumed: bool) -> None:
        try:
            if resumed:
                await self._resume(execution)
            else:
                self.starts += 1
                await execution.begin()
        except Unavailable:
            log.exception("attempt %s is left to its keeper", execution.entry.key)
        finally:
            self._executions.pop(execution.entry.key, None)
            self._poke.set()

    async def _resume(self, execution: Execution) -> None:
        """An Attempt from before: adopt its Lease, then watch it; without authority it is reported late."""
        entry = execution.entry
        assert entry.identity is not None
        boot_id, _ = self.host.boot()
        if boot_id != entry.identity.boot_id:
            entry.timeout_boot_ms = None
        if self.observer is not None:
            self.observer.resumed(entry)
        handle = self.host.reattach(entry.key, entry.identity)
        unseen = "" if handle is not None else self._unseen(entry, entry.identity)
        sent = self.clock.boot_ms()
        report = Report("attest", execution.claim(), answer="unknown", detail=unseen)
        answer = await self.outbox.post(report if unseen else Report("adopt", execution.claim()))
        self._unanswered -= 1
        if self._unanswered == 0:
            self._all_answered.set()
        execution.started = True
        execution.silent = bool(unseen)
        if not unseen and execution.accepted(answer, sent):
            await self.journal.put(entry)
        await execution.watch(handle)

    def _unseen(self, entry: Entry, identity: Identity) -> str:
        """Why it cannot be told what became of it. Such an Attempt is not adopted: its lease runs out (I12)."""
        if self.host.receipt(entry.key) is not None:
            return ""
        presence = self.host.presence(entry.key, identity)
        return presence.detail if presence.state == "unverifiable" else ""

    async def run(self) -> None:
        """Sync until stopped."""
        while not self._stopping:
            self._poke.clear()
            self._post_renewals()
            taken = self.outbox.take()
            sent = self.clock.boot_ms()
            try:
                reply = await self._link.sync(self._request(taken), self._poke)
            except (Unavailable, Unknown, Conflict) as error:
                if not self._cut_off:
                    log.warning("no answer from the control plane, trying on: %s", error)
                self._cut_off = True
                self.outbox.put_back(taken)
                await asyncio.sleep(_RETRY_S)
                continue
            self._cut_off = False
            self._take_in(reply, taken, sent)
            await asyncio.sleep(0)  # new executions post their first report before the next sync is made

    def _request(self, taken: list[Pending]) -> Sync:
        self._seq += 1
        free = self._free()
        while len(self._wants) < free:
            offer_id = self._ids.new()
            self._wants.append(Want(offer_id, self.journal.token_digest(offer_id)))
        return Sync(
            self._session_id,
            self._generation,
            self._seq,
            free,
            tuple(self._wants[:free]),
            tuple(pending.report for pending in taken),
            0 if taken else self._wait_ms(),
        )

    def _free(self) -> int:
        if self.uploads is not None and self.uploads.full:
            return 0
        return max(self._settings.max_runs - len(self._executions), 0) if self._pulling else 0

    def _wait_ms(self) -> int:
        if not self._executions:
            return self._settings.idle_wait_ms
        now = self.clock.boot_ms()
        due = min(execution.renewed_boot_ms for execution in self._executions.values()) + self._renew_ms
        return max(min(due - now, self._settings.idle_wait_ms), 1)

    def _post_renewals(self) -> None:
        now = self.clock.boot_ms()
        for execution in self._executions.values():
            if execution.silent or not execution.started:
                continue
            if now - execution.renewed_boot_ms < self._renew_ms:
                continue
            execution.renewed_boot_ms = now
            answer = self.outbox.post(Report("renew", execution.claim()))
            answer.add_done_callback(partial(_renewed, execution, now))

    def _take_in(self, reply: Reply, taken: list[Pending], sent: int) -> None:
        for pending, answer in zip(taken, reply.answers, strict=True):
            if not pending.answer.done():
                pending.answer.set_result(answer)
        for directive in reply.directives:
            key = AttemptKey(directive.run_id, directive.step, directive.attempt)
            execution = self._executions.get(key)
            if execution is not None:
                execution.stop(directive.reason)
        for offer in reply.offers:
            self._accept(offer, sent)

    def _accept(self, offer: Offer, sent: int) -> None:
        self._wants = [want for want in self._wants if want.offer_id != offer.offer_id]
        entry = Entry(
            offer.run_id,
            offer.step,
            offer.attempt,
            offer.offer_id,
            offer.generation,
            offer.version,
            offer.task,
            offer.spec,
            offer.fence,
            offer.scheduled_ms,
            offer.on_lease_loss,
        )
        self.spawn(entry, resumed=False).renewed_boot_ms = sent

    async def drain(self, drain_ms: int) -> int:
        """Start nothing new, wait at most ``drain_ms`` for what runs; how many still run."""
        self._pulling = False
        self._poke.set()
        for execution in list(self._executions.values()):
            if not execution.started:
                execution.stop("shutdown")
        waiting = [task for task in self._tasks if not task.done()]
        if waiting and drain_ms > 0:
            await asyncio.wait(waiting, timeout=drain_ms / 1000)
        return self.running

    def stop_all(self, cause: StoppedBy) -> None:
        """Ask every Attempt in hand to end."""
        for execution in list(self._executions.values()):
            execution.stop(cause)

    async def stop(self) -> None:
        """Leave what runs to its keepers: cancel the watching, tell the control plane, close nothing else."""
        self._pulling = False
        self._stopping = True
        self._poke.set()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        with contextlib.suppress(QingLongError):
            await self._link.transition(self._session_id, self._generation, "offline")


def _renewed(execution: Execution, sent: int, done: asyncio.Future[Answer]) -> None:
    if not done.cancelled():
        execution.accepted(done.result(), sent)
