"""How a Lease changes: renewed, moved, or ended. Small pieces that the rules share."""

from __future__ import annotations

from msgspec.structs import replace

from qinglong.domain.records import Attempt, Lease


def touched(lease: Lease, now_ms: int, lease_ms: int) -> Lease:
    """After an accepted report that is no renewal: a new version, and nothing older is accepted."""
    return lengthened(replace(lease, floor=lease.version + 1), now_ms, lease_ms)


def lengthened(lease: Lease, now_ms: int, lease_ms: int) -> Lease:
    """A new version with a new life; the floor stays."""
    return replace(
        lease,
        version=lease.version + 1,
        expires_ms=now_ms + lease_ms,
        reported_ms=now_ms,
        judge_ms=now_ms + lease_ms,
    )


def ended(attempt: Attempt, lease: Lease, how: str) -> Attempt:
    """The Attempt that records its Lease's end; the Lease leaves the table in the same transaction (I5)."""
    return replace(attempt, lease_generation=lease.generation, lease_version=lease.version + 1, lease_end=how)


def pristine(attempt: Attempt) -> Attempt:
    """The same Attempt as if it had never been handed out, but for its lease numbers, which only grow."""
    return replace(
        attempt,
        status="claimed",
        worker=None,
        session_id=None,
        offer_id=None,
        token_digest=None,
        claimed_ms=None,
        fence=0,
    )
