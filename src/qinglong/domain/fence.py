"""The fence: whether a worker's report still has authority over an Attempt (I4, design section 6)."""

from __future__ import annotations

import msgspec

from qinglong.domain.change import Aggregate, Refusal
from qinglong.domain.records import Lease


class Fence(msgspec.Struct, frozen=True, gc=False):
    """What a report claims about itself. The Session is not part of it: it fences pulling only."""

    worker: str
    run_id: str
    step: str
    attempt: int
    offer_id: str
    generation: int
    version: int
    token_digest: str


def check(found: Aggregate | None, fence: Fence, *, last_word: bool = False) -> Lease | Refusal:
    """The live Lease that the report is covered by, or why it is not.

    ``last_word``: what may still be said after the holder said that nothing of it runs. Refusal codes:
    ``run_unknown``, ``attempt_unknown``, ``superseded`` (a newer Attempt exists), ``not_leased``, ``fenced``
    (worker, offer, generation or version differ), ``token``, ``disowned``.
    """
    if found is None:
        return Refusal("run_unknown", "no such run")
    newest = found.attempt.number
    if found.attempt.step != fence.step or not 1 <= fence.attempt <= newest:
        return Refusal("attempt_unknown", f"there is no such attempt; {newest} is the newest")
    if newest != fence.attempt:
        return Refusal("superseded", f"attempt {newest} is the newest", late=True)
    lease = found.lease
    if lease is None:
        return Refusal("not_leased", _ended(found), late=True)
    same = lease.worker == fence.worker and lease.offer_id == fence.offer_id
    if not same or lease.generation != fence.generation:
        return Refusal("fenced", "the lease belongs to another delivery", late=True)
    if not lease.floor <= fence.version <= lease.version:
        return Refusal(
            "fenced", f"version {fence.version} is outside {lease.floor}..{lease.version}", late=True
        )
    if lease.token_digest != fence.token_digest:
        return Refusal("token", "the token does not match", late=True)
    if lease.disowned and not last_word:
        return Refusal("disowned", "its holder said that nothing of it runs", late=True)
    return lease


def _ended(found: Aggregate) -> str:
    how = found.attempt.lease_end or "never granted"
    return f"attempt {found.attempt.number} is {found.attempt.status}; its lease ended: {how}"


def same_delivery(found: Aggregate | None, fence: Fence) -> bool:
    """Whether the report speaks of the delivery that the Attempt had last, live or ended: a replay may be."""
    if found is None:
        return False
    attempt = found.attempt
    return (
        attempt.number == fence.attempt
        and attempt.step == fence.step
        and attempt.worker == fence.worker
        and attempt.offer_id == fence.offer_id
        and attempt.lease_generation == fence.generation
        and attempt.token_digest == fence.token_digest
    )


def replayed(kind: str, found: Aggregate | None, fence: Fence, session_id: str) -> bool:
    """Whether a refused report only repeats what was accepted before; repeating is harmless."""
    if found is None:
        return False
    attempt, lease = found.attempt, found.lease
    if kind == "returned":
        same = attempt.number == fence.attempt and attempt.lease_generation == fence.generation
        return same and attempt.lease_end in _RETURNED
    if not same_delivery(found, fence):
        return False
    if kind == "starting":
        return lease is not None and attempt.status in {"starting", "running"}
    if kind == "running":
        return attempt.running_ms is not None and attempt.lease_end in {"", "completed"}
    if kind == "completed":
        return attempt.lease_end in {"completed", "start_failed"}
    return kind == "adopt" and lease is not None and lease.session_id == session_id


_RETURNED = frozenset({"declined", "shutdown", "capacity_changed"})
