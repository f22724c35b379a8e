"""Returned, unstarted: the Lease ends and the same Attempt is pristine again; no attempt is used."""

from __future__ import annotations

from msgspec.structs import replace

from qinglong.domain import retrying
from qinglong.domain.change import Aggregate, Change, Refusal, event
from qinglong.domain.fence import Fence, check
from qinglong.domain.leases import ended, pristine
from qinglong.limits import RETURNS_MAX

REASONS = frozenset({"declined", "shutdown", "capacity_changed"})


def hand_back(
    found: Aggregate | None, fence: Fence, reason: str, now_ms: int, jitter: float
) -> Change | Refusal:
    """The worker gives an unstarted Attempt back. An orderly shutdown does not count against the Run.

    Refusal codes: the fence's, ``started`` (past the barrier nothing can be returned), ``reason``.
    """
    lease = check(found, fence)
    if isinstance(lease, Refusal):
        return lease
    assert found is not None
    if reason not in REASONS:
        return Refusal("reason", f"{reason!r} is no reason to return an attempt")
    if found.attempt.status != "claimed":
        return Refusal("started", f"the attempt is {found.attempt.status}")
    attempt = pristine(ended(found.attempt, lease, reason))
    return redelivered(
        Aggregate(found.run, attempt, None), reason, now_ms, jitter, counts=reason != "shutdown"
    )


def redelivered(found: Aggregate, reason: str, now_ms: int, jitter: float, *, counts: bool) -> Change:
    """The Run back in the queue with a pristine Attempt, after a pause that grows with each one."""
    returns = found.run.returns + (1 if counts else 0)
    wait = retrying.delay_ms(retrying.REDELIVERY, returns, jitter) if counts else 0
    run = replace(
        found.run,
        state="queued",
        returns=returns,
        available_ms=now_ms + wait if wait else None,
        unreachable_ms=None,
    )
    run, told = event(
        run,
        now_ms,
        "returned",
        attempt=found.attempt.number,
        reason=reason,
        returns=returns or None,
        undeliverable=True if returns >= RETURNS_MAX else None,
        available_ms=run.available_ms if wait else None,
    )
    return Change(Aggregate(run, found.attempt, None), (told,))
