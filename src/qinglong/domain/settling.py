"""What the retry step does with one Run: the rules of ending, retrying and gates in their order."""

from __future__ import annotations

from qinglong.domain import ending, retrying
from qinglong.domain.admission import pass_gate
from qinglong.domain.change import Aggregate, Change, Draft, Refusal
from qinglong.domain.gates import WAITS, places


def settle(draft: Draft, found: Aggregate, jitter: float) -> Change | Refusal:
    """Deadlines first, then lost Runs, then due retries, then held Runs whose gate has room.

    Refusal codes: those of the rules, ``nothing`` where none applies.
    """
    expired = ending.expire(found, draft.now_ms)
    if isinstance(expired, Change):
        return expired
    if found.run.state == "lost":
        return retrying.settle_lost(found, draft.now_ms, jitter)
    if found.run.state == "retry_wait":
        return retrying.next_attempt(found, draft.now_ms)
    for key, kind in places(found.run):
        if kind == WAITS and draft.gates[key].room > 0:
            return pass_gate(draft, found, key)
    return Refusal("nothing", "there is nothing to do yet")
