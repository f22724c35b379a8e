"""Dispatch: grant a Lease on a queued Run's pristine Attempt to a Session that can run it."""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from qinglong.domain import placement
from qinglong.domain.change import Aggregate, Change, Refusal, event
from qinglong.domain.records import Lease, Run, Session


class Want(msgspec.Struct, frozen=True, gc=False):
    """A worker's wish for one offer: an id that it chose and the digest of the token it derived."""

    offer_id: str
    token_digest: str


def grant(
    found: Aggregate, session: Session, want: Want, fence: int, now_ms: int, lease_ms: int
) -> Change | Refusal:
    """Run to dispatching, Attempt claimed by this Session, a Lease of the next generation.

    Refusal codes: ``not_queued``, ``not_pristine``, ``not_yet``, ``intent``, ``late`` (the deadline rules end it),
    ``placement`` (this worker lacks what the Run requires), ``prefers_another`` (for ``PREFER_MS``).
    """
    run, attempt = found.run, found.attempt
    if run.state != "queued":
        return Refusal("not_queued", f"the run is {run.state}")
    if not attempt.pristine or found.lease is not None:
        return Refusal("not_pristine", "the attempt was handed out")
    if run.intent is not None:
        return Refusal("intent", "the run is to end")
    if run.available_ms is not None and run.available_ms > now_ms:
        return Refusal("not_yet", "it waits for its backoff")
    if (run.barriers == 0 and _late(run.start_by_ms, now_ms)) or _late(run.deadline_ms, now_ms):
        return Refusal("late", "its time to start has passed")
    if run.placement and (refusal := _misplaced(run, session, now_ms)) is not None:
        return refusal
    lease = Lease(
        run_id=run.run_id,
        step=attempt.step,
        attempt=attempt.number,
        generation=attempt.lease_generation + 1,
        version=1,
        floor=1,
        worker=session.worker,
        session_id=session.session_id,
        session_generation=session.generation,
        offer_id=want.offer_id,
        token_digest=want.token_digest,
        journal_id=session.journal_id,
        journal_revision=session.journal_revision,
        granted_ms=now_ms,
        expires_ms=now_ms + lease_ms,
        reported_ms=now_ms,
        judge_ms=now_ms + lease_ms,
    )
    attempt = replace(
        attempt,
        worker=session.worker,
        session_id=session.session_id,
        offer_id=want.offer_id,
        token_digest=want.token_digest,
        lease_generation=lease.generation,
        lease_version=1,
        lease_end="",
        fence=fence,
        claimed_ms=now_ms,
    )
    run, told = event(
        replace(run, state="dispatching"),
        now_ms,
        "offered",
        attempt=attempt.number,
        worker=session.worker,
        generation=lease.generation,
    )
    return Change(Aggregate(run, attempt, lease), (told,))


def _misplaced(run: Run, session: Session, now_ms: int) -> Refusal | None:
    lacking = placement.missing(run.placement, session.capabilities)
    if lacking:
        return Refusal("placement", f"worker {session.worker} lacks {', '.join(lacking)}")
    if placement.still_preferred(
        run.placement, session.capabilities, run.available_ms or run.created_ms, now_ms
    ):
        return Refusal("prefers_another", "it waits a moment for a worker that it prefers")
    return None


def _late(limit_ms: int | None, now_ms: int) -> bool:
    return limit_ms is not None and limit_ms <= now_ms
