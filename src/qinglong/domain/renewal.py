"""Renewal and adoption: a Lease lives on, in the same hands or in its journal's next process."""

from __future__ import annotations

from msgspec.structs import replace

from qinglong.domain.change import Aggregate, Change, Refusal, event
from qinglong.domain.fence import Fence, check
from qinglong.domain.leases import lengthened, touched
from qinglong.domain.records import Session


def renew(found: Aggregate | None, fence: Fence, now_ms: int, lease_ms: int) -> Change | Refusal:
    """A longer life for the Lease; the floor stays, so that a report sent before the renewal still counts.

    No Event, unless the Run was unreachable: then its return is told. Expiry is permission, not an act: an
    expired Lease that nobody has ended is renewed.
    """
    lease = check(found, fence)
    if isinstance(lease, Refusal):
        return lease
    assert found is not None
    lease = lengthened(lease, now_ms, lease_ms)
    attempt = replace(found.attempt, lease_version=lease.version)
    if found.run.unreachable_ms is None:
        return Change(Aggregate(found.run, attempt, lease))
    since = found.run.unreachable_ms
    run, told = event(
        replace(found.run, unreachable_ms=None), now_ms, "reachable", since_ms=since, worker=lease.worker
    )
    return Change(Aggregate(run, attempt, lease), (told,))


def adopt(
    found: Aggregate | None, fence: Fence, session: Session, now_ms: int, lease_ms: int
) -> Change | Refusal:
    """A successor with the journal's token takes the Lease over: its session fields are rewritten.

    Refusal codes: the fence's, ``journal`` (another journal, or an older copy of the same one).
    """
    lease = check(found, fence)
    if isinstance(lease, Refusal):
        return lease
    assert found is not None
    if lease.journal_id != session.journal_id or session.journal_revision < lease.journal_revision:
        return Refusal("journal", "only the journal that holds the lease may adopt it")
    lease = replace(
        touched(lease, now_ms, lease_ms),
        session_id=session.session_id,
        session_generation=session.generation,
        journal_revision=session.journal_revision,
    )
    attempt = replace(found.attempt, session_id=session.session_id, lease_version=lease.version)
    run, told = event(
        replace(found.run, unreachable_ms=None),
        now_ms,
        "adopted",
        attempt=attempt.number,
        worker=lease.worker,
        session=session.session_id,
    )
    return Change(Aggregate(run, attempt, lease), (told,))
