"""May another Attempt follow, and when? Used by completion and by the settling of lost Runs (D3)."""

from __future__ import annotations

from msgspec.structs import replace

from qinglong.domain.change import Aggregate, Change, Refusal, event
from qinglong.domain.definitions import Backoff
from qinglong.domain.records import Attempt, Event, Run
from qinglong.limits import BACKOFF_FLOOR_MS, BACKOFF_MAX_MS, RETURNS_MAX

REDELIVERY = Backoff(initial_ms=1_000, factor=2.0, max_ms=300_000)
"""How long a Run that no worker could begin waits between deliveries."""


def delay_ms(backoff: Backoff, failures: int, jitter: float) -> int:
    """The pause before the next try after ``failures`` (>= 1) of them.

    Grows by the factor, capped, then jittered downwards by up to a fifth (``jitter`` in [0, 1)), never under
    the floor: a backoff cannot become a busy loop.
    """
    exponent = min(max(failures - 1, 0), 64)
    grown = min(backoff.initial_ms * backoff.factor**exponent, float(min(backoff.max_ms, BACKOFF_MAX_MS)))
    return max(BACKOFF_FLOOR_MS, int(grown * (1.0 - 0.2 * jitter)))


def verdict(run: Run, cause: str) -> str:
    """Empty if the policy allows another Attempt after ``cause``, else the reason why not.

    For ``lost`` the reasons are those of the decision, in its order; ``failed`` and ``timed_out`` need no
    declared safety: their end is a recorded fact (I3).
    """
    retry = run.policy.retry
    if cause not in retry.when or retry.max_attempts <= 1:
        return "lost_retry_disabled" if cause == "lost" else "retry_disabled"
    if cause == "lost" and run.policy.safety is None:
        return "lost_retry_unsafe"
    if run.barriers >= retry.max_attempts:
        return "lost_retry_exhausted" if cause == "lost" else "retry_exhausted"
    return ""


def schedule(
    run: Run, now_ms: int, jitter: float, cause: str, **told: object
) -> tuple[Run, tuple[Event, ...]]:
    """The Run in retry_wait with its due moment, and the Event that says so."""
    wait = delay_ms(run.policy.retry.backoff, run.barriers, jitter)
    run = replace(run, state="retry_wait", available_ms=now_ms + wait, held_by="")
    run, happened = event(
        run,
        now_ms,
        "retry_scheduled",
        cause=cause,
        next_attempt_ms=now_ms + wait,
        barriers=run.barriers,
        max_attempts=run.policy.retry.max_attempts,
        **told,
    )
    return run, (happened,)


def settle_lost(found: Aggregate, now_ms: int, jitter: float) -> Change | Refusal:
    """What becomes of a lost Run, by the policy that was stored at its admission (D3).

    Order: intent, policy, safety, exhaustion, else retry_wait. A loss that is ``never_started`` provably did
    nothing and is redelivered without any policy (departure, docs/adr).
    """
    run = found.run
    if run.state != "lost":
        return Refusal("not_lost", f"the run is {run.state}")
    if run.intent is not None:
        state = "cancelled" if run.intent.kind == "cancel" else "timed_out"
        return _end(found, state, run.intent.reason or run.intent.kind, now_ms)
    if found.attempt.reason == "never_started":
        return _redeliver(found, now_ms, jitter)
    why_not = verdict(run, "lost")
    if why_not:
        return _end(found, "failed", why_not, now_ms)
    run, events = schedule(run, now_ms, jitter, "lost")
    return Change(Aggregate(run, found.attempt, None), events)


def _redeliver(found: Aggregate, now_ms: int, jitter: float) -> Change:
    returns = found.run.returns + 1
    wait = delay_ms(REDELIVERY, returns, jitter)
    run = replace(found.run, state="retry_wait", returns=returns, available_ms=now_ms + wait)
    run, told = event(
        run,
        now_ms,
        "retry_scheduled",
        cause="never_started",
        next_attempt_ms=now_ms + wait,
        returns=returns,
        undeliverable=True if returns >= RETURNS_MAX else None,
    )
    return Change(Aggregate(run, found.attempt, None), (told,))


def _end(found: Aggregate, state: str, reason: str, now_ms: int) -> Change:
    run = replace(found.run, state=state, reason=reason, finished_ms=now_ms, unreachable_ms=None)
    run, told = event(run, now_ms, state, reason=reason)
    return Change(Aggregate(run, found.attempt, None), (told,))


def next_attempt(found: Aggregate, now_ms: int) -> Change | Refusal:
    """Attempt N+1, pristine, and the Run queued: one transaction. It inherits nothing from Attempt N (I3).

    Refusal codes: ``not_waiting``, ``not_yet``, ``intent``, ``still_live``.
    """
    run = found.run
    if run.state != "retry_wait":
        return Refusal("not_waiting", f"the run is {run.state}")
    if run.intent is not None:
        return Refusal("intent", "the run is to end")
    if run.available_ms is not None and run.available_ms > now_ms:
        return Refusal("not_yet", "its backoff has not passed")
    if found.lease is not None or found.attempt.ended_ms is None:
        return Refusal("still_live", "the last attempt has not ended")
    number = found.attempt.number + 1
    attempt = Attempt(run.run_id, found.attempt.step, number, created_ms=now_ms)
    run = replace(run, state="queued", attempt=number, available_ms=None)
    run, told = event(run, now_ms, "retried", attempt=number)
    return Change(Aggregate(run, attempt, None), (told,))
