"""Sessions: the authority of one worker process to pull work under a name (design section 6)."""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from qinglong.domain.change import Refusal
from qinglong.domain.records import Session
from qinglong.domain.states import SESSION


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
    )


def pull(
    session: Session | None, session_id: str, generation: int, seq: int, now_ms: int, session_ms: int
) -> Session | Refusal:
    """The Session after a pull: alive for longer, its seq advanced. A lower or equal seq grants nothing new.

    Refusal codes: ``session_unknown``, ``session_replaced``, ``draining``, ``seq``.
    """
    if session is None or session.session_id != session_id:
        return Refusal("session_unknown", "register first")
    if session.generation != generation:
        return Refusal("session_replaced", "a newer process registered under this name")
    if session.state != "online":
        return Refusal("draining", f"the session is {session.state}")
    if seq <= session.seq:
        return Refusal("seq", "an older pull grants nothing")
    return replace(session, seq=seq, version=session.version + 1, expires_ms=now_ms + session_ms)


def transition(session: Session | None, session_id: str, generation: int, state: str) -> Session | Refusal:
    """online → draining → offline. Refusal codes: ``session_unknown``, ``session_replaced``, ``unlawful``."""
    if session is None or session.session_id != session_id:
        return Refusal("session_unknown", "register first")
    if session.generation != generation:
        return Refusal("session_replaced", "a newer process registered under this name")
    if state != session.state and state not in SESSION[session.state]:
        return Refusal("unlawful", f"a session cannot go from {session.state} to {state}")
    return replace(session, state=state, version=session.version + 1)
