"""Sessions: the authority of one worker process to pull work under a name (design section 6)."""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from qinglong.domain.change import Refusal
from qinglong.domain.records import Session, Worker
from qinglong.domain.states import SESSION
from qinglong.limits import PROBATION_AFTER, PROBATION_PAUSE_MAX_MS, PROBATION_PAUSE_MS


class Introduction(msgspec.Struct, frozen=True):
    """What a worker process says when it registers."""

    session_id: str
    journal_id: str
    journal_revision: int
    max_runs: int
    host: str
    capabilities: dict[str, str]


def register(
    before: Session | None, worker: str, said: Introduction, now_ms: int, session_ms: int
) -> Session | Refusal:
    """A new generation of the name's Session; it replaces the old one.

    Refusal code ``name_in_use``: another journal under a name whose Session is live.
    """
    live = before is not None and before.state != "offline" and before.expires_ms > now_ms
    if before is not None and live and before.journal_id != said.journal_id:
        return Refusal("name_in_use", f"worker {worker} is connected with another journal")
    return Session(
        worker=worker,
        session_id=said.session_id,
        generation=1 if before is None else before.generation + 1,
        version=1,
        state="online",
        seq=0,
        expires_ms=now_ms + session_ms,
        journal_id=said.journal_id,
        journal_revision=said.journal_revision,
        max_runs=said.max_runs,
        host=said.host,
        capabilities=said.capabilities,
        failures=0 if before is None else before.failures,
        paused_until_ms=0 if before is None else before.paused_until_ms,
    )


def heartbeat(
    session: Session | None, session_id: str, generation: int, now_ms: int, session_ms: int
) -> Session | Refusal:
    """The Session alive for longer; the same value while more than half of its life is left (nothing to store).

    Refusal codes: ``session_unknown``, ``session_replaced``.
    """
    found = _own(session, session_id, generation)
    if isinstance(found, Refusal):
        return found
    if found.state == "offline" or found.expires_ms - now_ms > session_ms // 2:
        return found
    return replace(found, version=found.version + 1, expires_ms=now_ms + session_ms)


def _own(session: Session | None, session_id: str, generation: int) -> Session | Refusal:
    """The name's Session, if it is this process's own.

    A Session of a lower generation than the process was given is older than the process: the row was removed, or the
    ledger restored. It may register again; one that was replaced must not, or two would replace each other for ever.
    """
    if session is None or session.generation < generation:
        return Refusal("session_unknown", "register first")
    if (session.session_id, session.generation) != (session_id, generation):
        return Refusal("session_replaced", "a newer process registered under this name")
    return session


def pull(
    session: Session, worker: Worker | None, seq: int, now_ms: int, session_ms: int
) -> Session | Refusal:
    """The Session after a pull that is granted something: its seq advanced, so that an older one grants nothing.

    Refusal codes: ``draining``, ``cordoned``, ``seq``, ``probation`` (a pause; see :func:`faltered`).
    """
    if session.state != "online":
        return Refusal("draining", f"the session is {session.state}")
    if worker is not None and worker.cordon:
        return Refusal("cordoned", f"worker {worker.name} is {worker.cordon}")
    if seq <= session.seq:
        return Refusal("seq", "an older pull grants nothing")
    if on_probation(session) and session.paused_until_ms > now_ms:
        return Refusal("probation", f"{session.failures} offers in a row came back")
    return replace(session, seq=seq, version=session.version + 1, expires_ms=now_ms + session_ms)


def on_probation(session: Session) -> bool:
    """Whether it gets one offer at a time, with growing pauses, so that it cannot burn other people's Runs."""
    return session.failures >= PROBATION_AFTER


def claims(session: Session, most: int) -> int:
    """How many offers one pull may be granted."""
    return min(most, 1) if on_probation(session) else most


def faltered(session: Session, now_ms: int) -> Session:
    """After an offer that the worker returned or could not start."""
    failures = session.failures + 1
    steps = min(max(failures - PROBATION_AFTER, 0), 16)
    pause = min(PROBATION_PAUSE_MS << steps, PROBATION_PAUSE_MAX_MS)
    return replace(session, version=session.version + 1, failures=failures, paused_until_ms=now_ms + pause)


def proved(session: Session) -> Session:
    """After an Attempt that ran: the worker is as good as any. The same value if nothing was counted."""
    if not session.failures:
        return session
    return replace(session, version=session.version + 1, failures=0, paused_until_ms=0)


def transition(session: Session | None, session_id: str, generation: int, state: str) -> Session | Refusal:
    """online → draining → offline. Refusal codes: ``session_unknown``, ``session_replaced``, ``unlawful``."""
    found = _own(session, session_id, generation)
    if isinstance(found, Refusal):
        return found
    if state != found.state and state not in SESSION[found.state]:
        return Refusal("unlawful", f"a session cannot go from {found.state} to {state}")
    return replace(found, state=state, version=found.version + 1)
