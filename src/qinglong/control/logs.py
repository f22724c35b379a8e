"""Logs of remote workers: taken from whoever holds, or held, an Attempt; read by people (design section 7).

What a worker may send is fenced by what the ledger says of the Attempt: its worker, its offer, its token's digest.
These stand on the Attempt for good, so a log may come after the Lease was lost, and it never changes a state (I4).
"""

from __future__ import annotations

import asyncio
import hashlib
from typing import Final, NamedTuple

from qinglong.control.logreading import read
from qinglong.control.logstore import LogKey, Objects
from qinglong.control.logwriting import LogWriter
from qinglong.control.service import LogChunk
from qinglong.domain.records import Attempt
from qinglong.domain.states import ATTEMPT_FINAL
from qinglong.effects import Clock
from qinglong.errors import Invalid
from qinglong.ledger.port import Queries
from qinglong.limits import (
    LOG_CAP_BYTES,
    LOG_FENCE_MS,
    LOG_FENCES,
    LOG_LATE_MS,
    LOG_MERGES,
    LOG_PART_BYTES,
    LOG_WAIT_MS,
    SECOND,
)
from qinglong.wire.worker import LogAck, LogPart

_REFUSED_MS: Final = 5 * SECOND
"""So long a refusal is remembered, lest a worker that insists costs a query each time."""
_WATCHED_MS: Final = 5 * SECOND
"""Somebody who has read a log reads along for so long."""
_LOOK_S: Final = 0.25
_OFFSET_MAX: Final = 1 << 53


class _Known(NamedTuple):
    """A remembered answer of the fence."""

    refusal: str
    until_ms: int


class Watching:
    """Which growing logs somebody reads on this replica: a hint for their workers, and nothing more."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._until: dict[LogKey, int] = {}

    def note(self, key: LogKey) -> None:
        """Somebody reads it now."""
        self._until.pop(key, None)
        self._until[key] = self._clock.boot_ms() + _WATCHED_MS
        if len(self._until) > LOG_FENCES:
            del self._until[next(iter(self._until))]

    def __contains__(self, key: LogKey) -> bool:
        return self._until.get(key, 0) > self._clock.boot_ms()


class WorkerLogs:
    """Takes pieces of logs. Any number of replicas may do so for the same Attempt at once."""

    def __init__(
        self,
        objects: Objects,
        queries: Queries,
        clock: Clock,
        watching: Watching,
        cap_bytes: int = LOG_CAP_BYTES,
    ) -> None:
        self._objects = objects
        self._queries = queries
        self._clock = clock
        self._watching = watching
        self._cap = cap_bytes
        self._fences: dict[tuple[str, LogKey, str, str], _Known] = {}
        self._room = asyncio.Semaphore(LOG_MERGES)
        self.refused: dict[str, int] = {}
        """Refused pieces so far, by reason."""

    async def append(self, worker: str, part: LogPart, body: bytes) -> LogAck:
        """Take a piece, and seal the log if ``part.seal`` is there. ``worker`` is the connection's identity.

        Replaying any piece is harmless. Raises ``Invalid`` (``log_part``) for what no worker of ours sends, and
        ``Unavailable`` when the store cannot be used; then nothing is lost by sending the same again.
        """
        _check(part, body)
        key = LogKey(part.run_id, part.step, part.attempt)
        refusal = await self._refusal(worker, key, part)
        ack = LogAck(0, refused=refusal)
        if not refusal:
            async with self._room:
                ack = await LogWriter(self._objects, key, self._cap).append(part, body)
        if ack.refused:
            self.refused[ack.refused] = self.refused.get(ack.refused, 0) + 1
            return ack
        return LogAck(ack.next_offset, ack.sealed, key in self._watching)

    async def _refusal(self, worker: str, key: LogKey, part: LogPart) -> str:
        """Why this worker may not send this log: ``unknown_attempt`` or ``token``; empty if it may."""
        digest = _digest(part.token)
        known = self._fences.get(fence := (worker, key, part.offer_id, digest))
        now = self._clock.boot_ms()
        if known is not None and known.until_ms > now:
            return known.refusal
        attempt = await _attempt(self._queries, key)
        refusal = "unknown_attempt"
        if attempt is not None and attempt.worker == worker and attempt.offer_id == part.offer_id:
            refusal = "" if attempt.token_digest == digest else "token"
        self._fences.pop(fence, None)
        self._fences[fence] = _Known(refusal, now + (_REFUSED_MS if refusal else LOG_FENCE_MS))
        if len(self._fences) > LOG_FENCES:
            del self._fences[next(iter(self._fences))]
        return refusal


class StoredLogs:
    """``control.service.Logs`` from a store.

    A completion never waits for its log, so a reader may be at the end of an ended Attempt before its output is: a
    read then waits for the rest, up to ``LOG_WAIT_MS`` at a time and ``LOG_LATE_MS`` after the end.
    """

    def __init__(self, objects: Objects, queries: Queries, clock: Clock, watching: Watching) -> None:
        self._objects = objects
        self._queries = queries
        self._clock = clock
        self._watching = watching

    async def read(self, run_id: str, step: str, number: int, offset: int, limit: int) -> LogChunk | None:
        """See the port. Raises ``Unavailable``, and ``Damaged`` where the store's pieces disagree."""
        key = LogKey(run_id, step, number)
        until = self._clock.boot_ms() + LOG_WAIT_MS
        while True:
            found = await read(self._objects, key, offset, limit)
            if found is not None and (found[1] or not found[0].end):
                return found[0]
            self._watching.note(key)
            chunk = None if found is None else found[0]
            attempt = await _attempt(self._queries, key)
            if not self._owes(attempt, 0 if chunk is None else chunk.next_offset):
                return chunk or _nothing(attempt, offset)
            if chunk is not None and (chunk.data or chunk.gap):
                return LogChunk(chunk.data, chunk.offset, chunk.next_offset, False, chunk.gap)
            if self._clock.boot_ms() >= until:
                return chunk
            await asyncio.sleep(_LOOK_S)

    def _owes(self, attempt: Attempt | None, there: int) -> bool:
        """Whether its worker has more of the log, and is likely to send it at once."""
        if attempt is None or attempt.log_bytes is None or attempt.ended_ms is None:
            return False
        return there < attempt.log_bytes and self._clock.wall_ms() - attempt.ended_ms < LOG_LATE_MS


def _nothing(attempt: Attempt | None, offset: int) -> LogChunk | None:
    """An Attempt that has ended without a word has an empty log, whether or not its seal has arrived."""
    if attempt is None or attempt.status not in ATTEMPT_FINAL or attempt.log_bytes != 0:
        return None
    return LogChunk(b"", offset, offset, True)


async def _attempt(queries: Queries, key: LogKey) -> Attempt | None:
    view = await queries.run(key.run_id)
    if view is None:
        return None
    return next((one for one in view.attempts if (one.step, one.number) == (key.step, key.number)), None)


def _digest(token: str) -> str:
    try:
        return hashlib.sha256(bytes.fromhex(token)).hexdigest()
    except ValueError:
        return ""


def _check(part: LogPart, body: bytes) -> None:
    start = part.offset if part.gap_from is None else part.gap_from
    if not 0 <= start <= part.offset < _OFFSET_MAX or len(body) > LOG_PART_BYTES:
        raise Invalid("log_part", f"{len(body)} bytes at {part.offset} after {start} are no piece of a log")
