"""Recovery: what an expired Lease and recorded evidence allow (D1, D2; the verdict table of design section 9).

An expired lease, a closed connection, an offline session or a timeout is never evidence.
"""

from __future__ import annotations

from msgspec.structs import replace

from qinglong.domain.change import Aggregate, Change, Refusal, event
from qinglong.domain.leases import ended, pristine
from qinglong.domain.records import Evidence, Lease, Session
from qinglong.domain.returning import redelivered
from qinglong.domain.states import ATTEMPT_FINAL
from qinglong.limits import MINUTE, SECOND

TRUSTED_PROOFS = frozenset({"tree_gone", "boot_changed", "not_begun"})
_OVER = frozenset({"never_began", "not_running"})
"""Answers after which the holder has nothing left to say but its completion."""


def judge(found: Aggregate, evidence: Evidence | None, now_ms: int, jitter: float) -> Change | Refusal:
    """The verdict on one candidate.

    ``claimed`` and expired → the same Attempt is redelivered (it provably never began); ``never_began`` from the
    holder's journal likewise, up to the report of ``running``; ``not_running`` with a trusted proof → lost; a live
    Lease otherwise stays; anything else → unreachable, and wait. Refusal code: ``live`` (nothing to recover).
    """
    attempt, lease = found.attempt, found.lease
    if attempt.status in ATTEMPT_FINAL or attempt.pristine:
        return Refusal("live", "there is nothing to recover")
    usable = _usable(found, evidence)
    answer = "" if usable is None else usable.answer
    live = lease is not None and lease.expires_ms > now_ms
    if attempt.status == "claimed" and (not live or answer in _OVER):
        return never_started(found, "lease_expired", now_ms, jitter, usable)
    if attempt.status == "starting" and answer == "never_began":
        return never_started(found, "lease_expired", now_ms, jitter, usable)
    if usable is not None and answer == "not_running" and usable.proof in TRUSTED_PROOFS:
        return lose(found, usable, now_ms)
    if lease is not None and live:
        return _kept(found, lease, now_ms)
    return unreachable(found, usable, now_ms)


def _usable(found: Aggregate, evidence: Evidence | None) -> Evidence | None:
    """Evidence is void for another delivery, and once a later report of the Lease's holder was accepted."""
    if evidence is None or evidence.attempt != found.attempt.number or evidence.step != found.attempt.step:
        return None
    lease = found.lease
    if lease is None or evidence.generation != lease.generation or evidence.version < lease.version:
        return None
    return evidence


def _kept(found: Aggregate, lease: Lease, now_ms: int) -> Change | Refusal:
    """The Lease is live and nothing speaks against it: the next look is at its expiry."""
    if lease.judge_ms > now_ms:
        return Refusal("live", "its lease is live")
    return Change(Aggregate(found.run, found.attempt, replace(lease, judge_ms=lease.expires_ms)))


def lose(found: Aggregate, evidence: Evidence, now_ms: int) -> Change:
    """The lost transaction (D2): Attempt and Run lost, Lease released ``lease_expired``, one commit (I5)."""
    attempt = found.attempt
    if found.lease is not None:
        attempt = ended(attempt, found.lease, "lease_expired")
    attempt = replace(attempt, status="lost", ended_ms=now_ms, reason="not_running")
    run = replace(found.run, state="lost", unreachable_ms=None, reason="lost")
    run, told = event(
        run,
        now_ms,
        "lost",
        attempt=attempt.number,
        reason="not_running",
        provider=evidence.provider,
        proof=evidence.proof,
        detail=evidence.detail or None,
        evidence_ms=evidence.at_ms,
    )
    return Change(Aggregate(run, attempt, None), (told,))


def never_started(
    found: Aggregate, how: str, now_ms: int, jitter: float, evidence: Evidence | None = None
) -> Change:
    """It provably did nothing: lost as ``never_started``, then redelivered; needs no policy (departure).

    A claimed Attempt becomes pristine again. One past the barrier is final, and its successor takes its place;
    the barrier that it passed without beginning is not counted against ``max_attempts``.
    """
    attempt = found.attempt
    if found.lease is not None:
        attempt = ended(attempt, found.lease, how)
    if attempt.status == "claimed" and found.run.state == "dispatching" and found.run.intent is None:
        return redelivered(Aggregate(found.run, pristine(attempt), None), how, now_ms, jitter, counts=True)
    passed = 0 if attempt.status == "claimed" else 1
    attempt = replace(attempt, status="lost", ended_ms=now_ms, reason="never_started")
    run = replace(found.run, unreachable_ms=None, barriers=found.run.barriers - passed, reason="lost")
    run, told = event(
        replace(run, state="lost"),
        now_ms,
        "lost",
        attempt=attempt.number,
        reason="never_started",
        provider=evidence.provider if evidence else None,
        proof=evidence.proof if evidence else None,
        detail=evidence.detail if evidence else None,
    )
    return Change(Aggregate(run, attempt, None), (told,))


def unreachable(found: Aggregate, evidence: Evidence | None, now_ms: int) -> Change:
    """Keep everything, say since when nobody answers. Its gates stay occupied."""
    lease = found.lease
    if lease is not None:
        lease = replace(lease, judge_ms=now_ms + _pause(found, now_ms))
    if found.run.unreachable_ms is not None:
        return Change(Aggregate(found.run, found.attempt, lease))
    run, told = event(
        replace(found.run, unreachable_ms=now_ms),
        now_ms,
        "unreachable",
        attempt=found.attempt.number,
        worker=found.attempt.worker,
        answer=evidence.answer if evidence else None,
        detail=evidence.detail if evidence else None,
    )
    return Change(Aggregate(run, found.attempt, lease), (told,))


def _pause(found: Aggregate, now_ms: int) -> int:
    """Until the next look: as long as it has been silent, between a second and five minutes."""
    since = found.run.unreachable_ms
    silent = 0 if since is None else now_ms - since
    return min(max(silent, SECOND), 5 * MINUTE)


def believable(found: Aggregate, session: Session | None, evidence: Evidence) -> Evidence:
    """What a holder says counts only from the journal that holds the Lease, at no older revision."""
    lease = found.lease
    same = (
        lease is not None
        and session is not None
        and session.journal_id == lease.journal_id
        and session.journal_revision >= lease.journal_revision
    )
    if same:
        return evidence
    return replace(evidence, answer="unknown", proof="", detail="another journal, or an older copy of it")


def record(found: Aggregate, evidence: Evidence, now_ms: int) -> Change | Refusal:
    """New evidence clears "not before": recovery looks at once. A holder's ``not_running`` or ``never_began`` also
    ends its Lease's life; from then on only its completion is accepted. Refusal codes ``not_leased``, ``disowned``.
    """
    lease = found.lease
    if lease is None:
        return Refusal("not_leased", "there is no lease to decide about")
    if evidence.answer in _OVER:
        lease = replace(lease, expires_ms=0)
    elif lease.disowned:
        return Refusal("disowned", "its holder said that nothing of it runs", late=True)
    lease = replace(lease, judge_ms=now_ms)
    return Change(Aggregate(found.run, found.attempt, lease))
