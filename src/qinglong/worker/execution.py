"""One Attempt in this worker's hands, from offer to acknowledged end (design sections 6 and 7)."""

from __future__ import annotations

import asyncio
import logging
from typing import Any, Protocol

import msgspec

from qinglong.domain.completion import Result, StoppedBy
from qinglong.effects import Clock
from qinglong.errors import QingLongError
from qinglong.wire.worker import Answer, Claim, Report
from qinglong.worker.host import Handle, Host, Launch, Presence, SealedLog, Shortage, StartFailed
from qinglong.worker.journal import Entry, Journal
from qinglong.worker.outbox import Outbox
from qinglong.worker.uploading import Uploads

log = logging.getLogger("qinglong.worker")
TICK_S = 1.0
"""How often a running Attempt's log is held to its cap and its limits are looked at."""


class Shared(Protocol):
    """What executions share; the agent provides it."""

    host: Host
    journal: Journal
    outbox: Outbox
    clock: Clock
    lease_ms: int
    observer: Observer | None
    uploads: Uploads | None
    """``None``: the log files of this machine are the store (ADR 0014)."""


class Observer(Protocol):
    """Hears what Attempts do, for a terminal; must not block."""

    def began(self, entry: Entry) -> None: ...

    def resumed(self, entry: Entry) -> None:
        """It was begun by an earlier process of this worker."""
        ...

    def ended(self, entry: Entry, result: Result | None) -> None:
        """``None``: the outcome is not known."""
        ...


class Execution:
    """Drives one journal entry. ``version`` and ``renewed_boot_ms`` follow the Lease."""

    def __init__(self, shared: Shared, entry: Entry, renewed_boot_ms: int) -> None:
        self._shared = shared
        self.entry = entry
        self.renewed_boot_ms = renewed_boot_ms
        """When the request was sent that the Lease's present life counts from."""
        self.silent = False
        """It is not renewed: its Lease was refused, or what became of it cannot be seen."""
        self.started = False
        """The start barrier may have been passed."""
        self._stop_wanted: StoppedBy = ""
        self._stopping = False
        """This process has begun the stop."""
        self._went = False
        """This process sent the go byte."""
        self._sealed: SealedLog | None = None
        self._nudge = asyncio.Event()

    def claim(self) -> Claim:
        """The identifying part of this Attempt's reports."""
        entry = self.entry
        token = self._shared.journal.token(entry.offer_id)
        return Claim(
            entry.run_id, entry.step, entry.number, entry.offer_id, entry.generation, entry.version, token
        )

    def stop(self, cause: StoppedBy) -> None:
        """Ask for the end; the first cause counts."""
        if not self._stop_wanted:
            self._stop_wanted = cause
            self._nudge.set()

    def accepted(self, answer: Answer, sent_boot_ms: int) -> bool:
        """Take in the answer to a report; whether authority still stands."""
        if answer.outcome == "refused":
            self.silent = True
            return False
        self.entry.version = max(self.entry.version, answer.version)
        self.renewed_boot_ms = sent_boot_ms
        if answer.timeout_in_ms is not None:
            self.entry.timeout_boot_ms = sent_boot_ms + answer.timeout_in_ms
        return True

    async def _report(self, kind: Any, **fields: Any) -> bool:
        sent = self._shared.clock.boot_ms()
        answer = await self._shared.outbox.post(Report(kind, self.claim(), **fields))
        return self.accepted(answer, sent)

    async def begin(self) -> None:
        """A fresh offer: through the start barrier, then watch it to its end."""
        if self._stop_wanted:
            await self._report("returned", reason="shutdown")
            return
        self.started = True
        sent = self._shared.clock.boot_ms()
        starting = self._shared.outbox.post(Report("starting", self.claim()))
        # The report goes out first: making a keeper holds the loop up for a millisecond.
        await asyncio.sleep(0)
        prepared = await self._prepare()
        allowed = self.accepted(await starting, sent)
        if not isinstance(prepared, Exception):
            await (self._go(prepared) if allowed else self._turn_back(prepared))
        elif allowed and isinstance(prepared, StartFailed):
            await self._finish(Result(start_failed=prepared.reason))
        elif allowed:
            await self._attest("never_began", "not_begun", f"it could not be made ready: {prepared}")

    async def _turn_back(self, handle: Handle) -> None:
        """The barrier was refused: the keeper ends without having run anything."""
        await _abandon(handle)
        await self._forget()

    async def _prepare(self) -> Handle | Exception:
        """A keeper that waits for its go byte, its identity durable; or why there is none, and nothing of it runs.

        It is made while the start barrier is asked for: until the go byte nothing of the command runs.
        """
        entry = self.entry
        try:
            handle = self._shared.host.launch(Launch(entry.key, entry.spec, entry.fence, entry.scheduled_ms))
        except (StartFailed, Shortage) as error:
            return error
        entry.identity = handle.identity
        if entry.spec.timeout_ms is not None:
            entry.timeout_boot_ms = self._shared.clock.boot_ms() + entry.spec.timeout_ms
        try:
            await self._shared.journal.put(entry)
        except Exception as error:
            await _abandon(handle)
            return error
        return handle

    async def _go(self, handle: Handle) -> None:
        """The barrier is passed and the identity durable: let it run, say so, watch it."""
        handle.go()
        self._went = True
        facts = {"pid": handle.identity.pid, "digests": handle.digests or None}
        running = self._shared.outbox.post(
            Report("running", self.claim(), {k: v for k, v in facts.items() if v is not None})
        )
        running.add_done_callback(self._ran)
        if self._shared.observer is not None:
            self._shared.observer.began(self.entry)
        await self.watch(handle)

    def _ran(self, answer: asyncio.Future[Answer]) -> None:
        if not answer.cancelled():
            self.accepted(answer.result(), self.renewed_boot_ms)

    async def watch(self, handle: Handle | None) -> None:
        """Until the whole tree is gone, then report. ``None``: the keeper has ended already."""
        if self._shared.uploads is not None:
            self._shared.uploads.follow(self.entry, fresh=self._went)
        ended = asyncio.ensure_future(handle.ended() if handle is not None else _now())
        try:
            await self._until_ended(ended)
            presence = await self._until_gone()
        finally:
            ended.cancel()
            if handle is not None:
                handle.close()
        await self._conclude(presence)

    async def _until_ended(self, ended: asyncio.Future[None]) -> None:
        """The keeper's end, holding the log to its cap and the Attempt to its limits meanwhile."""
        while not ended.done():
            nudge = asyncio.ensure_future(_until(self._nudge))
            await asyncio.wait({ended, nudge}, timeout=self._pause_s(), return_when=asyncio.FIRST_COMPLETED)
            nudge.cancel()
            if ended.done():
                return
            self._shared.host.trim_log(self.entry.key)
            cause = self._cause()
            if cause and not self._stopping:
                await self._stop(ended, cause)

    def _cause(self) -> StoppedBy:
        """Why it has to end, if it has to; a stop that an earlier process began goes on."""
        return self.entry.stopped_by or self._stop_wanted or self._over_limit()

    def _pause_s(self) -> float:
        if self._stopping:
            return TICK_S
        if self.entry.stopped_by or self._stop_wanted:
            return 0
        moments = [self._shared.clock.boot_ms() + int(TICK_S * 1000)]
        if self.entry.timeout_boot_ms is not None:
            moments.append(self.entry.timeout_boot_ms)
        return max(min(moments) - self._shared.clock.boot_ms(), 0) / 1000

    def _over_limit(self) -> StoppedBy:
        now, entry = self._shared.clock.boot_ms(), self.entry
        if entry.timeout_boot_ms is not None and now >= entry.timeout_boot_ms:
            return "timeout"
        rule = entry.on_lease_loss
        lost_ms = now - self.renewed_boot_ms - self._shared.lease_ms
        if rule.kind == "stop_after" and lost_ms >= rule.after_ms:
            return "lease_loss"
        return ""

    async def _stop(self, ended: asyncio.Future[None], cause: StoppedBy) -> None:
        """Ask politely, wait the grace, then kill the tree: one path for timeout, cancel and shutdown."""
        entry, host = self.entry, self._shared.host
        assert entry.identity is not None
        if not await self._intend(cause):
            return
        host.signal(entry.key, entry.identity, entry.spec.stop.signal)
        await asyncio.wait({ended}, timeout=entry.spec.stop.grace_ms / 1000)
        if not ended.done():
            await host.kill(entry.key, entry.identity)

    async def _intend(self, cause: StoppedBy) -> bool:
        """Journal who asked for the end before the first signal; not if it ended by itself meanwhile.

        A journal that cannot be written must not keep a job alive past its limit: the stop goes on without it.
        """
        entry = self.entry
        self._stopping = True
        if self._shared.host.receipt(entry.key) is not None:
            return False
        entry.stopped_by = cause
        try:
            await self._shared.journal.put(entry)
        except QingLongError as error:
            log.warning("the stop of %s is not journaled: %s", entry.run_id, error)
        return True

    async def _until_gone(self) -> Presence:
        """Gone means the tree. What a finished command left behind is stopped; what cannot be seen is waited for.

        A keeper that was killed alone leaves the command running: then the Attempt runs, receipt or not (I3).
        """
        host, entry = self._shared.host, self.entry
        assert entry.identity is not None
        presence = host.presence(entry.key, entry.identity)
        left = presence
        while presence.state != "gone":
            cause = self._cause()
            if cause and not self._stopping and await self._intend(cause):
                host.signal(entry.key, entry.identity, entry.spec.stop.signal)
                await asyncio.sleep(min(entry.spec.stop.grace_ms / 1000, TICK_S))
                presence = host.presence(entry.key, entry.identity)
                continue
            over = host.receipt(entry.key) is not None or entry.stopped_by
            if presence.state == "alive" and over:
                presence = await host.kill(entry.key, entry.identity)
                continue
            await asyncio.sleep(TICK_S)
            host.trim_log(entry.key)
            presence = host.presence(entry.key, entry.identity)
        return left

    async def _conclude(self, left: Presence) -> None:
        """The end is a fact. Without a receipt the outcome is not known, and unknown is not failure (I12)."""
        entry = self.entry
        receipt = self._shared.host.receipt(entry.key)
        if receipt is not None and receipt.kind == "not_begun":
            await self._never_ran()
            return
        if receipt is None and not entry.stopped_by:
            rebooted = self._shared.host.boot()[0] != (entry.identity.boot_id if entry.identity else "")
            proof = "boot_changed" if rebooted else "tree_gone"
            await self._attest("not_running", proof, "no receipt, and nothing of it runs")
            return
        if receipt is None:
            await self._finish(Result(signal=9, stopped_by=entry.stopped_by, leftovers=len(left.pids)))
            return
        await self._finish(
            Result(
                exit_code=receipt.exit_code,
                signal=receipt.signal,
                stopped_by=entry.stopped_by,
                leftovers=len(left.pids),
            )
        )

    async def _never_ran(self) -> None:
        """The keeper ended without its go byte. It may have been sent, and reported as running, a moment too late."""
        if self.entry.stopped_by:
            await self._finish(Result(stopped_by=self.entry.stopped_by))
        elif self._went:
            await self._attest("not_running", "not_begun", "the keeper was ended before it read its go byte")
        else:
            await self._attest("never_began", "not_begun", "the keeper never got its go byte")

    async def _finish(self, result: Result) -> None:
        """Report the completion with its log's digest; then close the entry, or hand it to the upload."""
        key = self.entry.key
        if not result.start_failed:
            self._sealed = sealed = await self._shared.host.seal_log(key)
            result = msgspec.structs.replace(
                result, log_bytes=sealed.length, log_dropped=sealed.dropped, log_digest=sealed.digest
            )
        await self._report("completed", result=result)
        await self._close(result)

    async def _attest(self, answer: Any, proof: str, detail: str) -> None:
        await self._report("attest", answer=answer, proof=proof, detail=detail)
        if answer == "never_began":
            await self._forget()
            return
        await self._close(None)

    async def _close(self, result: Result | None) -> None:
        if self._shared.observer is not None:
            self._shared.observer.ended(self.entry, result)
        if self._shared.uploads is None or (result is not None and result.start_failed):
            await self._forget()
        else:
            self._shared.uploads.finish(self.entry, self._sealed)

    async def _forget(self) -> None:
        if self._shared.uploads is not None:
            self._shared.uploads.drop(self.entry.key)
        await self._shared.journal.close_entry(self.entry.key)
        self._shared.host.discard(self.entry.key)


async def _abandon(handle: Handle) -> None:
    """No go byte: the keeper ends by itself."""
    handle.abandon()
    await handle.ended()
    handle.close()


async def _until(event: asyncio.Event) -> None:
    await event.wait()


async def _now() -> None:
    """Has ended already."""
