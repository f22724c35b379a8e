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


SessionWord = Literal["", "session_unknown", "session_replaced", "cordoned", "draining", "probation"]
"""``session_unknown``: register again. ``session_replaced``: a newer process has the name; finish what runs and end.
``draining``: an operator asks for the same. ``cordoned``, ``probation``: no offers for now.
"""


class Reply(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a sync brings back; ``answers`` are in the order of the reports."""

    answers: tuple[Answer, ...] = ()
    offers: tuple[Offer, ...] = ()
    directives: tuple[Directive, ...] = ()
    lease_ms: int = LEASE_MS
    session: SessionWord = ""
    """What is to be known about the Session; empty: it stands, and offers may come."""


class LogPart(msgspec.Struct, frozen=True, omit_defaults=True):
    """A piece of an Attempt's output on its way to the log store, fenced by Attempt and token; allowed after loss.

    On the wire it is one line of JSON, then the bytes as the command wrote them (at most ``LOG_PART_BYTES``).
    """

    run_id: str
    step: str
    attempt: int
    offer_id: str
    token: str
    """Hex; the control plane stores its SHA-256 only."""
    offset: int
    """Logical offset of the first byte."""
    gap_from: int | None = None
    """The bytes from here to ``offset`` were cut out because of the cap."""
    seal: LogSeal | None = None
    """With the last piece: what all of it comes to."""


class LogSeal(msgspec.Struct, frozen=True):
    """A log that will not grow any more."""

    length: int
    """Bytes that the command wrote, in total."""
    dropped: int
    """Bytes cut out between head and tail because of the cap."""
    digest: str
    """Hex SHA-256 of the kept bytes: the head, then the tail."""


class LogAck(msgspec.Struct, frozen=True, omit_defaults=True):
    """How far the log store has the log; go on from there."""

    next_offset: int
    sealed: bool = False
    watched: bool = False
    """Somebody reads along: send what there is at once."""
    refused: str = ""
    """Why nothing was taken, and never will be: ``unknown_attempt``, ``token``, ``sealed``, ``differs``."""
