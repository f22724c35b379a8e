"""What an operator says about a worker name: cordon, drain, tokens (design sections 6 and 13).

A name is known once it has a token, has registered, or has been spoken of. What is said about it outlives its
Sessions. Each act is kept in the audit trail by who asked for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec
from msgspec.structs import replace

from qinglong.domain.change import Refusal
from qinglong.domain.records import Audit, Session, Worker, WorkerToken
from qinglong.limits import WORKER_TOKENS

Cordon = Literal["", "cordoned", "draining"]
_ACTIONS = {"": "worker.uncordon", "cordoned": "worker.cordon", "draining": "worker.drain"}


class Act(msgspec.Struct, frozen=True):
    """Who does it, when, and the id of its line in the audit trail."""

    audit_id: str
    by: str
    now_ms: int

    def audit(self, action: str, worker: str, detail: str = "") -> Audit:
        """The line that says so."""
        return Audit(self.audit_id, self.now_ms, self.by, action, f"worker {worker}", "done", detail)


def cordon(
    worker: Worker | None, session: Session | None, name: str, wish: Cordon, reason: str, act: Act
) -> tuple[Worker, Audit] | Refusal:
    """The name with its new cordon; the empty one takes it back.

    Refusal code ``worker_unknown``: a name that nobody has ever used is more likely mistyped.
    """
    if worker is None and session is None:
        return Refusal("worker_unknown", f"there is no worker {name}")
    said = Worker(name, wish, act.now_ms, act.by, reason)
    return said, act.audit(_ACTIONS[wish], name, reason)


def issue(
    worker: Worker | None, live: int, name: str, digest: str, act: Act
) -> tuple[Worker, WorkerToken, Audit] | Refusal:
    """A new token for the name, of which only the digest is kept; ``live``: how many it has.

    Refusal code ``too_many_tokens``.
    """
    if live >= WORKER_TOKENS:
        return Refusal("too_many_tokens", f"worker {name} has {live} tokens")
    token = WorkerToken(digest, name, act.now_ms, act.by)
    return worker or Worker(name, "", act.now_ms, act.by), token, act.audit("worker.token", name, digest[:12])


def revoke(tokens: Sequence[WorkerToken], name: str, act: Act) -> tuple[list[WorkerToken], Audit]:
    """Every token of the name that is still good, revoked."""
    gone = [replace(token, revoked_ms=act.now_ms) for token in tokens if token.revoked_ms is None]
    return gone, act.audit("worker.revoke", name, f"{len(gone)} token(s)")
