"""Completion: a worker's word on how its Attempt ended, the best evidence there is."""

from __future__ import annotations

from typing import Literal

import msgspec
from msgspec.structs import replace

from qinglong.domain import retrying
from qinglong.domain.change import Aggregate, Change, Refusal, event
from qinglong.domain.fence import Fence, check
from qinglong.domain.leases import ended
from qinglong.domain.records import Attempt, Event, Lease, Run

StoppedBy = Literal["", "cancel", "deadline", "timeout", "shutdown", "lease_loss"]


class Result(msgspec.Struct, frozen=True, omit_defaults=True):
    """How the command ended. ``stopped_by`` says who ended it; empty: it ended by itself."""

    exit_code: int | None = None
    signal: int | None = None
    stopped_by: StoppedBy = ""
    start_failed: str = ""
    """Why the command could not be started; it never ran then."""
    log_bytes: int = 0
    log_dropped: int = 0
    log_digest: str = ""
    leftovers: int = 0
    """Processes that the finished command had left behind and that were stopped."""


def outcome(result: Result) -> tuple[str, str]:
    """(final attempt status, reason). A job that ended well before its stop arrived has succeeded."""
    if result.start_failed:
        return "failed", f"start_failed: {result.start_failed}"
    if result.stopped_by == "cancel":
        return "cancelled", "cancel"
    if result.stopped_by in {"timeout", "deadline"}:
        return "timed_out", result.stopped_by
    if result.stopped_by:
        return "failed", f"stopped: {result.stopped_by}"
    if result.exit_code == 0:
        return "succeeded", ""
    if result.signal is not None:
        return "failed", f"signal {result.signal}"
    if result.exit_code is None:
        return "failed", "ended without an exit code"
    return "failed", f"exit code {result.exit_code}"


def same_end(attempt: Attempt, result: Result) -> bool:
    """Whether a later completion says what was accepted before; one that differs is late evidence (I4)."""
    status, reason = outcome(result)
    said = (status, reason, result.exit_code, result.signal, result.log_bytes, result.log_digest)
    return said == (
        attempt.status,
        attempt.reason,
        attempt.exit_code,
        attempt.signal,
        attempt.log_bytes,
        attempt.log_digest,
    )


def complete(
    found: Aggregate | None, fence: Fence, result: Result, now_ms: int, jitter: float
) -> Change | Refusal:
    """Attempt final, Lease completed, Run final or in retry_wait: one commit (I1, I5).

    Refusal codes: the fence's, ``not_started`` (the start barrier was never passed).
    """
    lease = check(found, fence, last_word=True)
    if isinstance(lease, Refusal):
        return lease
    assert found is not None
    if found.attempt.status == "claimed":
        return Refusal("not_started", "the start barrier was never passed")
    return ended_with(found, lease, result, now_ms, jitter)


def ended_with(found: Aggregate, lease: Lease, result: Result, now_ms: int, jitter: float) -> Change:
    """The Change of an accepted completion."""
    status, reason = outcome(result)
    how = "start_failed" if result.start_failed else "completed"
    attempt = replace(
        ended(found.attempt, lease, how),
        status=status,
        ended_ms=now_ms,
        reason=reason,
        exit_code=result.exit_code,
        signal=result.signal,
        log_bytes=result.log_bytes,
        log_dropped=result.log_dropped,
        log_digest=result.log_digest,
    )
    run = replace(
        found.run,
        unreachable_ms=None,
        reason=reason,
        exit_code=result.exit_code,
        signal=result.signal,
    )
    run, told = _told(run, attempt.number, status, reason, result, now_ms)
    final = Aggregate(replace(run, state=status, finished_ms=now_ms), attempt, None)
    if status in {"succeeded", "cancelled"}:
        return Change(final, (told,))
    if run.intent is not None:
        return Change(_mapped(final, run), (told,))
    if result.stopped_by == "deadline" or retrying.verdict(run, status):
        return Change(final, (told,))
    run, events = retrying.schedule(run, now_ms, jitter, status)
    return Change(Aggregate(run, attempt, None), (told, *events))


def _mapped(final: Aggregate, run: Run) -> Aggregate:
    """An unsuccessful end under an intent is that intent's end: no retry follows what a person has ended."""
    assert run.intent is not None
    state = "cancelled" if run.intent.kind == "cancel" else "timed_out"
    return Aggregate(replace(final.run, state=state), final.attempt, None)


def _told(run: Run, number: int, status: str, reason: str, result: Result, now_ms: int) -> tuple[Run, Event]:
    return event(
        run,
        now_ms,
        "completed",
        attempt=number,
        status=status,
        reason=reason or None,
        exit_code=result.exit_code,
        signal=result.signal,
        stopped_by=result.stopped_by or None,
        leftovers=result.leftovers or None,
        log_bytes=result.log_bytes,
        log_dropped=result.log_dropped or None,
        final=None if run.intent is None else run.intent.kind,
    )
