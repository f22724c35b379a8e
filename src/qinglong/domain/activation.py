"""Activation: the start barrier (``starting``) and the fact that the command runs (``running``)."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from qinglong.domain.change import Aggregate, Change, Refusal, event
from qinglong.domain.fence import Fence, check
from qinglong.domain.leases import lengthened, touched


def starting(found: Aggregate | None, fence: Fence, now_ms: int, lease_ms: int) -> Change | Refusal:
    """Pass the start barrier: before this commit the Attempt provably never ran, after it only evidence counts.

    Fixes the Attempt's timeout by the ledger's clock. Refusal codes: those of the fence, ``intent`` (the Run is
    to end: do not start), ``not_claimed``.
    """
    lease = check(found, fence)
    if isinstance(lease, Refusal):
        return lease
    assert found is not None
    run, attempt = found.run, found.attempt
    if attempt.status != "claimed":
        return Refusal("not_claimed", f"the attempt is {attempt.status}")
    if run.intent is not None:
        return Refusal("intent", f"the run is to end: {run.intent.kind}")
    lease = touched(lease, now_ms, lease_ms)
    timeout_at = None if run.policy.timeout_ms is None else now_ms + run.policy.timeout_ms
    attempt = replace(
        attempt,
        status="starting",
        starting_ms=now_ms,
        timeout_at_ms=timeout_at,
        lease_version=lease.version,
    )
    run = replace(run, barriers=run.barriers + 1)
    run, told = event(run, now_ms, "starting", attempt=attempt.number, timeout_at_ms=timeout_at)
    return Change(Aggregate(run, attempt, lease), (told,))


def running(
    found: Aggregate | None, fence: Fence, now_ms: int, lease_ms: int, facts: dict[str, Any]
) -> Change | Refusal:
    """The command runs: identity and digests go into the Event. Refusal codes: the fence's, ``not_starting``.

    The floor stays: a short job's completion rides in the same sync, sent before this was answered.
    """
    lease = check(found, fence)
    if isinstance(lease, Refusal):
        return lease
    assert found is not None
    if found.attempt.status != "starting":
        return Refusal("not_starting", f"the attempt is {found.attempt.status}")
    lease = lengthened(lease, now_ms, lease_ms)
    attempt = replace(found.attempt, status="running", running_ms=now_ms, lease_version=lease.version)
    run = replace(found.run, state="running", unreachable_ms=None)
    run, told = event(run, now_ms, "running", **{**facts, "attempt": attempt.number})
    return Change(Aggregate(run, attempt, lease), (told,))
