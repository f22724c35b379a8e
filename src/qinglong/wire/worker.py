"""The worker protocol: what crosses between a worker and the control plane (design section 6).

JSON over HTTPS for remote workers, plain calls in one process; the same structs either way. Durations are
milliseconds; times leave the control plane only as *remaining* ms, counted from when the request was sent.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from qinglong.domain.completion import Result
from qinglong.domain.definitions import OnLeaseLoss, TaskSpec
from qinglong.domain.dispatch import Want
from qinglong.limits import LEASE_MS, RENEW_MS


class Register(msgspec.Struct, frozen=True, omit_defaults=True):
    """A worker process introduces itself; a registration replaces an older one of the same name."""

    session_id: str
    journal_id: str
    journal_revision: int
    max_runs: int
    host: str = ""
    capabilities: dict[str, str] = {}


class Question(msgspec.Struct, frozen=True, omit_defaults=True):
    """A live Attempt of this worker's earlier sessions: what became of it?"""

    run_id: str
    step: str
    attempt: int
    offer_id: str
    generation: int
    version: int


class Registered(msgspec.Struct, frozen=True, omit_defaults=True):
    """The session's generation, the lease times, and what the control plane wants to know."""

    generation: int
    lease_ms: int = LEASE_MS
    renew_ms: int = RENEW_MS
    questions: tuple[Question, ...] = ()


class Claim(msgspec.Struct, frozen=True, omit_defaults=True):
    """The identifying part of a report; with the connection's worker name it is the fence."""

    run_id: str
    step: str
    attempt: int
    offer_id: str
    generation: int
    version: int
    token: str
    """Hex; the control plane stores its SHA-256 only."""


class Report(msgspec.Struct, frozen=True, omit_defaults=True):
    """One thing that a worker says about one Attempt. Replaying any report is harmless."""

    kind: Literal["starting", "running", "completed", "returned", "renew", "adopt", "attest"]
    claim: Claim
    facts: dict[str, Any] = {}
    """``running``: identity and digests for the Event."""
    result: Result | None = None
    """``completed`` (also when the command could not be started)."""
    reason: str = ""
    """``returned``: why."""
    answer: Literal["", "running", "not_running", "never_began", "unknown"] = ""
    proof: str = ""
    detail: str = ""


class Sync(msgspec.Struct, frozen=True, omit_defaults=True):
    """Heartbeat, renewals, reports and pull in one request."""

    session_id: str
    generation: int
    seq: int
    free_slots: int = 0
    wants: tuple[Want, ...] = ()
    reports: tuple[Report, ...] = ()
    wait_ms: int = 0


class Answer(msgspec.Struct, frozen=True, omit_defaults=True):
    """The reply to one report: ``ok``, ``replayed`` or ``refused`` with a reason."""

    outcome: Literal["ok", "replayed", "refused"]
    reason: str = ""
    version: int = 0
    """The Lease's version after an accepted report."""
    timeout_in_ms: int | None = None
    """After ``starting``, ``adopt``: how long the Attempt may still run."""


class Offer(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a worker may execute: rebuilt from the Lease and the pinned revision."""

    run_id: str
    step: str
    attempt: int
    offer_id: str
    generation: int
    version: int
    lease_in_ms: int
    task: str
    spec: TaskSpec
    fence: int
    scheduled_ms: int | None = None
    on_lease_loss: OnLeaseLoss = OnLeaseLoss()


class Directive(msgspec.Struct, frozen=True, omit_defaults=True):
    """A wish of the control plane about a running Attempt."""

    run_id: str
    step: str
    attempt: int
    reason: Literal["cancel", "deadline"]


class Reply(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a sync brings back; ``answers`` are in the order of the reports."""

    answers: tuple[Answer, ...] = ()
    offers: tuple[Offer, ...] = ()
    directives: tuple[Directive, ...] = ()
    lease_ms: int = LEASE_MS
