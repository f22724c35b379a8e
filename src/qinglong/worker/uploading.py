"""Logs on their way to the store: while their Attempts run, and after the end until all of it is there.

A completion never waits for this. Each Attempt's log is sent piece by piece from its file, as far as the store says
that it is; what the store has sealed is deleted here. Where the worker's files are the store (ADR 0014) nothing of
this is there. Source: design sections 6 and 7, ADR 0018.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import Final, NamedTuple, Protocol

import msgspec

from qinglong.effects import Clock, Rng
from qinglong.errors import QingLongError, Unavailable
from qinglong.limits import (
    LOG_BACKLOG,
    LOG_PART_BYTES,
    LOG_RETRY_MAX_MS,
    LOG_SEND_MS,
    LOG_SENDERS,
    SECOND,
)
from qinglong.wire.worker import LogPart, LogSeal
from qinglong.worker.host import AttemptKey, Host, SealedLog
from qinglong.worker.journal import Entry, Journal
from qinglong.worker.link import LogLink

log = logging.getLogger("qinglong.logs")
_TICK_MS: Final = 1 * SECOND
"""How often a growing log is looked at."""
_RETRY_MS: Final = 500
"""Pause before the first repetition; each further one doubles it."""


class LogPiece(NamedTuple):
    """A piece of a log file: ``data`` lies at ``offset``; what lay in ``gap``, just before it, was dropped."""

    data: bytes
    offset: int
    end: bool
    """Nothing lies behind it now."""
    gap: tuple[int, int] | None


class LogFiles(Protocol):
    """The log files of this machine. Calls are short; they raise ``OSError``."""

    def length(self, key: AttemptKey) -> int:
        """Logical length in bytes; 0 if there is no file."""
        ...

    def read(self, key: AttemptKey, offset: int, limit: int) -> LogPiece:
        """At most ``limit`` bytes from ``offset``; nothing, and its end, if there is no file."""
        ...

    def gap(self, key: AttemptKey) -> tuple[int, int] | None:
        """The range that was dropped because of the cap."""
        ...

    def forget(self, key: AttemptKey) -> None:
        """Delete the file: the store has all of it."""
        ...


class _Upload(msgspec.Struct):
    """One Attempt's log."""

    entry: Entry
    offset: int | None
    """How far the store has it; ``None``: it is to be asked."""
    due_ms: int
    """When to look at it again (CLOCK_BOOTTIME)."""
    sent_ms: int | None = None
    ended: bool = False
    sealed: SealedLog | None = None
    watched: bool = False
    refused: bool = False
    """The store will never take more of it."""
    busy: bool = False
    tries: int = 0


class Uploads:
    """Sends logs as long as ``run`` runs; tell it what begins (``follow``) and what has ended (``finish``)."""

    def __init__(
        self, link: LogLink, host: Host, files: LogFiles, journal: Journal, clock: Clock, rng: Rng
    ) -> None:
        self._link = link
        self._host = host
        self._files = files
        self._journal = journal
        self._clock = clock
        self._rng = rng
        self._uploads: dict[AttemptKey, _Upload] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._poke = asyncio.Event()
        self._closed = asyncio.Event()
        self._troubles = 0
        self._quiet_until_ms = 0

    @property
    def backlog(self) -> int:
        """Ended Attempts whose logs are not in the store yet."""
        return sum(upload.ended for upload in self._uploads.values())

    @property
    def full(self) -> bool:
        """So many wait that the worker takes nothing new (I10)."""
        return len(self._uploads) >= LOG_BACKLOG and self.backlog >= LOG_BACKLOG

    def follow(self, entry: Entry, *, fresh: bool) -> None:
        """Its command may be writing. ``fresh``: nothing of it can be in the store."""
        self._uploads[entry.key] = _Upload(entry, 0 if fresh else None, self._clock.boot_ms())
        self._poke.set()

    def finish(self, entry: Entry, sealed: SealedLog | None = None) -> None:
        """Its end is acknowledged: send the rest, then close the journal's entry. ``sealed``: if that is known."""
        upload = self._uploads.setdefault(entry.key, _Upload(entry, None, 0))
        upload.ended, upload.sealed, upload.due_ms = True, sealed, self._clock.boot_ms()
        self._poke.set()

    def drop(self, key: AttemptKey) -> None:
        """Nothing of it ran, so there is no log."""
        self._uploads.pop(key, None)

    async def flushed(self, timeout_s: float) -> int:
        """Wait until no ended Attempt's log is left to send, at most so long; how many are left."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                while self.backlog:
                    self._closed.clear()
                    await self._closed.wait()
        return self.backlog

    async def run(self) -> None:
        """Send until cancelled."""
        try:
            while True:
                self._poke.clear()
                while len(self._tasks) < LOG_SENDERS and (upload := self._next()) is not None:
                    upload.busy = True
                    task = asyncio.create_task(self._work(upload))
                    self._tasks.add(task)
                    task.add_done_callback(self._done)
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._poke.wait(), _TICK_MS / 1000)
        finally:
            for task in self._tasks:
                task.cancel()

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._poke.set()
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("a log cannot be sent", exc_info=error)

    def _next(self) -> _Upload | None:
        """The one that has waited longest for its turn."""
        now = self._clock.boot_ms()
        if now < self._quiet_until_ms:
            return None
        due = (upload for upload in self._uploads.values() if upload.due_ms <= now and not upload.busy)
        for upload in sorted(due, key=lambda upload: upload.due_ms):
            if upload.ended or self._has_news(upload, now):
                return upload
            upload.due_ms = now + _TICK_MS
        return None

    def _has_news(self, upload: _Upload, now: int) -> bool:
        """Whether a growing log is to be sent: a full piece, one that waited, or any while somebody watches."""
        if upload.refused:
            return False
        if upload.offset is None:
            return True
        waiting = self._files.length(upload.entry.key) - upload.offset
        if waiting <= 0:
            return False
        early = upload.sent_ms is None or upload.watched
        return early or waiting >= LOG_PART_BYTES or now - (upload.sent_ms or 0) >= LOG_SEND_MS

    async def _work(self, upload: _Upload) -> None:
        """One piece of one log, and what comes of it."""
        try:
            await self._step(upload)
            await self._note(upload)
            self._troubles = upload.tries = self._quiet_until_ms = 0
            upload.due_ms = self._clock.boot_ms()
        except Exception as error:
            await self._trouble(upload, error)
        finally:
            upload.busy = False

    async def _note(self, upload: _Upload) -> None:
        """What is not done at once outlives a restart as a log to send, not as an end to report."""
        entry = upload.entry
        if upload.ended and not entry.reported and self._uploads.get(entry.key) is upload:
            entry.reported = True
            await self._journal.put(entry)

    async def _trouble(self, upload: _Upload, error: Exception) -> None:
        """Later again: this one, and for a moment all of them, as it is seldom one log's fault."""
        if not isinstance(error, QingLongError | OSError):
            log.error("the log of %s cannot be sent", upload.entry.run_id, exc_info=error)
        elif not self._troubles:
            log.warning("the log of %s is not sent yet: %s", upload.entry.run_id, error)
        self._troubles += 1
        upload.tries += 1
        now = self._clock.boot_ms()
        upload.due_ms = now + self._pause_ms(upload.tries)
        self._quiet_until_ms = now + self._pause_ms(self._troubles)
        with contextlib.suppress(QingLongError):
            await self._note(upload)

    def _pause_ms(self, tries: int) -> int:
        pause = min(_RETRY_MS << min(tries - 1, 16), LOG_RETRY_MAX_MS)
        return int(pause * (1 + self._rng.fraction()) / 2)

    async def _step(self, upload: _Upload) -> None:
        if upload.refused:
            await self._close(upload, keep=True)
            return
        if upload.ended and upload.sealed is None:
            upload.sealed = await self._host.seal_log(upload.entry.key)
        part, body = self._piece(upload)
        asked = upload.offset is None
        upload.sent_ms = self._clock.boot_ms()
        ack = await self._link.log(part, body)
        upload.watched = ack.watched
        if ack.refused or (ack.sealed and not upload.ended):
            log.warning(
                "the log of %s stays on this machine: %s", upload.entry.run_id, ack.refused or "sealed"
            )
            upload.refused = True
            if upload.ended:
                await self._close(upload, keep=True)
            return
        if ack.sealed:
            await self._close(upload, keep=False)
            return
        if not asked and ack.next_offset == upload.offset:
            raise Unavailable("log_stuck", f"the store stays at {ack.next_offset}")
        upload.offset = ack.next_offset

    def _piece(self, upload: _Upload) -> tuple[LogPart, bytes]:
        """What to send now: a question, a piece, a last piece with the seal, or the seal alone."""
        key, sealed, offset = upload.entry.key, upload.sealed, upload.offset
        if offset is None:
            return self._part(upload, 0), b""
        piece = self._files.read(key, offset, LOG_PART_BYTES)
        gap_from = None if piece.gap is None else piece.gap[0]
        if sealed is None or not piece.end:
            return self._part(upload, piece.offset, gap_from), piece.data
        seal = LogSeal(sealed.length, sealed.dropped, sealed.digest)
        if not sealed.dropped:
            return self._part(upload, piece.offset, gap_from, seal), piece.data
        if piece.data or piece.gap:
            return self._part(upload, piece.offset, gap_from), piece.data
        # With the seal a gap is all that was cut out, however much of it was sent before it was cut.
        start, end = self._files.gap(key) or (offset, offset)
        return self._part(upload, end, start, seal), b""

    def _part(
        self, upload: _Upload, offset: int, gap_from: int | None = None, seal: LogSeal | None = None
    ) -> LogPart:
        entry = upload.entry
        token = self._journal.token(entry.offer_id)
        return LogPart(entry.run_id, entry.step, entry.number, entry.offer_id, token, offset, gap_from, seal)

    async def _close(self, upload: _Upload, *, keep: bool) -> None:
        """All of it is in the store, or never will be (``keep``): nothing of this Attempt is ours any more."""
        key = upload.entry.key
        await self._journal.close_entry(key)
        self._host.discard(key)
        if not keep:
            self._files.forget(key)
        self._uploads.pop(key, None)
        self._closed.set()
