"""Cancellation and deadlines: unstarted work ends at once, started work gets an intent (design section 7).

Past the start barrier nothing here ends a Run: the intent directs a stop, and the end is the worker's
completion or a lost verdict, which maps to it first.
"""

from __future__ import annotations

from msgspec.structs import replace

from qinglong.domain.change import Aggregate, Change, Refusal, event
from qinglong.domain.leases import ended
from qinglong.domain.records import Intent
from qinglong.domain.states import ATTEMPT_FINAL, RUN_FINAL


def cancel(found: Aggregate, by: str, reason: str, now_ms: int) -> Change | Refusal:
    """Cancel a Run. Refusal codes: ``final``, ``already`` (the same intent is recorded; harmless)."""
    run = found.run
    if run.state in RUN_FINAL:
        return Refusal("final", f"the run is {run.state}")
    if run.intent is not None and run.intent.kind == "cancel":
        return Refusal("already", "its cancellation was asked before")
    intent = Intent("cancel", now_ms, by, reason)
    if started(found):
        return _intend(found, intent, now_ms)
    return _end_unstarted(found, intent, "cancelled", reason or "cancel", now_ms)


def expire(found: Aggregate, now_ms: int) -> Change | Refusal:
    """Apply ``start_by_ms`` and ``deadline_ms``. Refusal code ``not_due``: neither has passed, or it is known."""
    run = found.run
    if run.state in RUN_FINAL:
        return Refusal("final", f"the run is {run.state}")
    unstarted = run.barriers == 0 and not started(found)
    if unstarted and run.start_by_ms is not None and run.start_by_ms <= now_ms:
        intent = Intent("deadline", now_ms, reason="start_within")
        return _end_unstarted(found, intent, "timed_out", "start_within", now_ms)
    if run.deadline_ms is None or run.deadline_ms > now_ms or run.intent is not None:
        return Refusal("not_due", "nothing has passed")
    intent = Intent("deadline", now_ms, reason="deadline")
    if started(found):
        return _intend(found, intent, now_ms)
    return _end_unstarted(found, intent, "timed_out", "deadline", now_ms)


def started(found: Aggregate) -> bool:
    """Whether the newest Attempt is past its start barrier and not final: only evidence ends it."""
    return found.attempt.status in {"starting", "running"}


def _intend(found: Aggregate, intent: Intent, now_ms: int) -> Change:
    run, told = event(
        replace(found.run, intent=intent),
        now_ms,
        f"{intent.kind}_requested",
        by=intent.by or None,
        reason=intent.reason or None,
        attempt=found.attempt.number,
    )
    return Change(Aggregate(run, found.attempt, found.lease), (told,))


def _end_unstarted(found: Aggregate, intent: Intent, state: str, reason: str, now_ms: int) -> Change:
    attempt = found.attempt
    if found.lease is not None:
        attempt = ended(attempt, found.lease, "cancelled")
    if attempt.status not in ATTEMPT_FINAL:
        attempt = replace(attempt, status=state, ended_ms=now_ms, reason=reason)
    run = replace(found.run, state=state, intent=intent, held_by="", reason=reason, finished_ms=now_ms)
    run = replace(run, unreachable_ms=None)
    run, told = event(run, now_ms, state, reason=reason, by=intent.by or None, unstarted=True)
    return Change(Aggregate(run, attempt, None), (told,))
