"""Workers' reports: each judged by a pure rule, all of one sync in one transaction.

When a batch fails as a whole it is redone report by report, so that one bad report spoils only itself.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable

import msgspec

from qinglong.control.deps import Deps
from qinglong.domain import activation, completion, recovery, renewal, returning, sessions
from qinglong.domain.admission import promote
from qinglong.domain.change import Aggregate, Change, Draft, Refusal
from qinglong.domain.fence import Fence, check, replayed
from qinglong.domain.records import Evidence, LateEvidence, Session
from qinglong.errors import Damaged, QingLongError, Unavailable, Unknown
from qinglong.ledger.port import Keys
from qinglong.limits import REPORT_BYTES
from qinglong.wire.worker import Answer, Directive, Report

log = logging.getLogger("qinglong.reports")
_FREES = {"completed", "attest"}
_encode = msgspec.json.encode


class Reports:
    """Applies reports and says which stop directives the loaded Runs carry."""

    def __init__(
        self, deps: Deps, seen: Callable[[str], Session | None] = lambda worker: None, *, lone: bool = False
    ) -> None:
        self._deps = deps
        self._seen = seen
        self._lone = lone
        """The only worker there is: nobody else could take what it fails to start."""
        self.refused = 0
        """Refused reports so far."""

    async def apply(
        self, worker: str, session_id: str, reports: tuple[Report, ...]
    ) -> tuple[list[Answer], list[Directive]]:
        """Answers in the order of the reports. Raises ``Unknown`` or ``Unavailable``: repeat the same sync."""
        try:
            return await self._batch(worker, session_id, reports)
        except (Unknown, Unavailable):
            raise
        except Exception as error:
            if len(reports) == 1:
                self.refused += 1
                return [Answer("refused", _reason(error))], []
        answers: list[Answer] = []
        directives: list[Directive] = []
        for report in reports:
            one, more = await self.apply(worker, session_id, (report,))
            answers += one
            directives += more
        return answers, directives

    async def _batch(
        self, worker: str, session_id: str, reports: tuple[Report, ...]
    ) -> tuple[list[Answer], list[Directive]]:
        keys = Keys(
            worker=worker if self._speaks_of_session(worker, reports) else "",
            runs=tuple(sorted({report.claim.run_id for report in reports})),
            frees=any(report.kind in _FREES for report in reports),
        )

        def decide(draft: Draft) -> tuple[list[Answer], list[Directive]]:
            answers = [self._one(draft, worker, session_id, report) for report in reports]
            promote(draft)
            return answers, directives_of(draft, keys.runs)

        answers, directives = await self._deps.ledger.transact(keys, decide)
        self.refused += sum(answer.outcome == "refused" for answer in answers)
        return answers, directives

    def _speaks_of_session(self, worker: str, reports: tuple[Report, ...]) -> bool:
        if any(report.kind in {"adopt", "attest"} for report in reports):
            return True
        if self._lone:
            return False
        seen = self._seen(worker)
        if seen is not None and seen.failures and any(report.kind == "completed" for report in reports):
            return True
        return any(map(_faltered, reports))

    def _count(self, draft: Draft, report: Report) -> None:
        """Offers that came back in a row put a worker on probation; one that ran takes it off."""
        if draft.session is None or self._lone:
            return
        if _faltered(report):
            draft.session = sessions.faltered(draft.session, draft.now_ms)
        elif report.kind == "completed":
            draft.session = sessions.proved(draft.session)

    def _one(self, draft: Draft, worker: str, session_id: str, report: Report) -> Answer:
        fence = fence_of(worker, report)
        found = draft.get(fence.run_id)
        answer = self._rule(draft, found, fence, report)
        if isinstance(answer, Change):
            draft.apply(answer)
            self._count(draft, report)
            return _accepted(answer.after, report, draft.now_ms)
        if replayed(report.kind, found, fence, session_id) and _repeats(found, report):
            assert found is not None
            return msgspec.structs.replace(_accepted(found, report, draft.now_ms), outcome="replayed")
        if answer.late and found is not None:
            draft.puts.append(_late(fence, report, answer, draft.now_ms))
        return Answer("refused", answer.code)

    def _rule(self, draft: Draft, found: Aggregate | None, fence: Fence, report: Report) -> Change | Refusal:
        now, life, jitter = draft.now_ms, self._deps.times.lease_ms, self._deps.rng.fraction()
        match report.kind:
            case "starting":
                return activation.starting(found, fence, now, life)
            case "running":
                return activation.running(found, fence, now, life, report.facts)
            case "completed":
                if report.result is None:
                    return Refusal("malformed", "a completion without its result")
                return completion.complete(found, fence, report.result, now, jitter)
            case "returned":
                return returning.hand_back(found, fence, report.reason, now, jitter)
            case "renew":
                return renewal.renew(found, fence, now, life)
            case "adopt":
                if draft.session is None:
                    return Refusal("session_unknown", "register first")
                return renewal.adopt(found, fence, draft.session, now, life)
            case "attest":
                return _attest(draft, found, fence, report)


def _faltered(report: Report) -> bool:
    """Whether it says that an offer came to nothing on this worker."""
    if report.kind == "completed":
        return report.result is not None and bool(report.result.start_failed)
    if report.kind == "returned":
        return report.reason != "shutdown"
    return report.kind == "attest" and report.answer == "never_began"


def _repeats(found: Aggregate | None, report: Report) -> bool:
    """A repeated completion says the same again; other reports say nothing that could differ."""
    if found is None or report.result is None:
        return True
    return completion.same_end(found.attempt, report.result)


def fence_of(worker: str, report: Report) -> Fence:
    """The fence that a report claims; the worker's name is the connection's, never the body's."""
    claim = report.claim
    digest = hashlib.sha256(bytes.fromhex(claim.token)).hexdigest() if _is_hex(claim.token) else ""
    return Fence(
        worker,
        claim.run_id,
        claim.step,
        claim.attempt,
        claim.offer_id,
        claim.generation,
        claim.version,
        digest,
    )


def _is_hex(text: str) -> bool:
    return len(text) == 64 and set(text) <= set("0123456789abcdef")


def _attest(draft: Draft, found: Aggregate | None, fence: Fence, report: Report) -> Change | Refusal:
    """The holder's journal answers what became of an Attempt; recovery decides on the recorded answer."""
    lease = check(found, fence, last_word=True)
    if isinstance(lease, Refusal):
        return lease
    if not report.answer:
        return Refusal("malformed", "an attestation without its answer")
    assert found is not None
    evidence = Evidence(
        fence.run_id,
        fence.step,
        fence.attempt,
        report.answer,
        "attestation",
        draft.now_ms,
        report.detail,
        report.proof,
        lease.generation,
        lease.version,
    )
    evidence = recovery.believable(found, draft.session, evidence)
    change = recovery.record(found, evidence, draft.now_ms)
    if isinstance(change, Change):
        draft.puts.append(evidence)
    return change


def _accepted(after: Aggregate, report: Report, now_ms: int) -> Answer:
    version = after.attempt.lease_version if after.lease is None else after.lease.version
    timeout_at = after.attempt.timeout_at_ms
    left = None
    if report.kind in {"starting", "adopt"} and timeout_at is not None:
        left = max(timeout_at - now_ms, 0)
    return Answer("ok", "", version, left)


def directives_of(draft: Draft, run_ids: tuple[str, ...]) -> list[Directive]:
    """Stops that the holders of these Runs have to hear."""
    found: list[Directive] = []
    for run_id in run_ids:
        aggregate = draft.get(run_id)
        if aggregate is None or aggregate.lease is None or aggregate.run.intent is None:
            continue
        attempt = aggregate.attempt
        found.append(Directive(run_id, attempt.step, attempt.number, aggregate.run.intent.kind))
    return found


def _late(fence: Fence, report: Report, refusal: Refusal, now_ms: int) -> LateEvidence:
    hidden = msgspec.structs.replace(report, claim=msgspec.structs.replace(report.claim, token=""))
    body = _encode(hidden)[:REPORT_BYTES].decode(errors="replace")
    digest = hashlib.sha256(body.encode()).hexdigest()
    return LateEvidence(fence.run_id, fence.step, fence.attempt, digest, now_ms, refusal.code, body)


def _reason(error: Exception) -> str:
    """A Conflict by its code; anything else is a stored record, or a rule of ours, that this report breaks."""
    if isinstance(error, QingLongError) and not isinstance(error, Damaged):
        return error.code
    log.error("a report cannot be applied", exc_info=error)
    return "damaged"
