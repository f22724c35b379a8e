"""The records of the ledger: frozen values, compared and replaced as wholes.

Ids are UUIDv7 text; times UTC milliseconds; ``None`` in a ``*_ms`` field means "not (yet)". Design section 3.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import msgspec

from qinglong.domain.definitions import OnLeaseLoss, Overlap, Retry, Safety


class AttemptRef(NamedTuple):
    """The natural key of an Attempt and of its Lease; ``step`` is empty for plain Runs."""

    run_id: str
    step: str
    number: int


class Policy(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the owner declared, resolved at admission from the pinned revision and stored with the Run (D3)."""

    safety: Safety | None = None
    retry: Retry = Retry()
    overlap: Overlap = Overlap()
    on_lease_loss: OnLeaseLoss = OnLeaseLoss()
    timeout_ms: int | None = None


class Intent(msgspec.Struct, frozen=True, omit_defaults=True):
    """A recorded wish that the Run end. Past the start barrier it is only a wish: facts decide the end."""

    kind: Literal["cancel", "deadline"]
    at_ms: int
    by: str = ""
    reason: str = ""


class Run(msgspec.Struct, frozen=True, gc=False):
    """One user-visible execution from intention to result. ``version`` is its newest Event's number (I1)."""

    run_id: str
    project: str
    task_id: str
    task: str
    revision: int
    cause: str
    """``cron``, ``every``, ``at``, ``boot``, ``manual``."""
    trigger_id: str | None
    occurrence: str | None
    scheduled_ms: int | None
    created_ms: int
    policy: Policy
    gates: tuple[str, ...]
    """Limit keys it occupies, the task's overlap first; see ``domain/gates.py``."""
    priority: int
    placement: str
    """Placement key (``domain/placement.py``): which workers may run it; empty = any."""
    start_by_ms: int | None
    deadline_ms: int | None
    # what changes
    state: str
    version: int
    held_by: str = ""
    attempt: int = 1
    """Number of its newest Attempt."""
    barriers: int = 0
    """Start barriers passed so far, what ``max_attempts`` counts."""
    returns: int = 0
    """Deliveries that came back unstarted (returned or never started)."""
    available_ms: int | None = None
    """Not offered, or not retried, before this moment."""
    intent: Intent | None = None
    unreachable_ms: int | None = None
    reason: str = ""
    exit_code: int | None = None
    signal: int | None = None
    finished_ms: int | None = None


class Attempt(msgspec.Struct, frozen=True, gc=False):
    """One try at executing a Run. Born ``claimed`` and pristine: no worker, lease, offer or start fact."""

    run_id: str
    step: str
    number: int
    status: str = "claimed"
    created_ms: int = 0
    worker: str | None = None
    session_id: str | None = None
    offer_id: str | None = None
    token_digest: str | None = None
    lease_generation: int = 0
    lease_version: int = 0
    lease_end: str = ""
    """How its newest Lease ended: empty while leased or never leased, ``completed``, or a release reason."""
    fence: int = 0
    claimed_ms: int | None = None
    starting_ms: int | None = None
    running_ms: int | None = None
    ended_ms: int | None = None
    timeout_at_ms: int | None = None
    """Fixed at the start barrier by the ledger's clock."""
    reason: str = ""
    exit_code: int | None = None
    signal: int | None = None
    log_bytes: int | None = None
    log_dropped: int | None = None
    log_digest: str | None = None

    @property
    def ref(self) -> AttemptRef:
        return AttemptRef(self.run_id, self.step, self.number)

    @property
    def pristine(self) -> bool:
        """Provably never handed out: excluded from recovery."""
        return self.status == "claimed" and self.offer_id is None


class Lease(msgspec.Struct, frozen=True, gc=False):
    """The authority of one worker session to execute one Attempt, while it is ``leased``.

    Reports are accepted at a version v with ``floor <= v <= version``; floor is the version of the last
    change that was no renewal. Ended Leases leave the table: their facts stand on the Attempt and in Events.
    """

    run_id: str
    step: str
    attempt: int
    generation: int
    version: int
    floor: int
    worker: str
    session_id: str
    session_generation: int
    offer_id: str
    token_digest: str
    journal_id: str
    journal_revision: int
    granted_ms: int
    expires_ms: int
    reported_ms: int
    """When the newest accepted report came."""
    judge_ms: int
    """Recovery looks at it from this moment on: its expiry, later after a fruitless look, at once after evidence."""

    @property
    def disowned(self) -> bool:
        """Its holder said that nothing of the Attempt runs: from then on only its completion is accepted."""
        return self.expires_ms == 0

    @property
    def ref(self) -> AttemptRef:
        return AttemptRef(self.run_id, self.step, self.attempt)


class Session(msgspec.Struct, frozen=True, gc=False):
    """The authority of one worker process to pull work under a name. It says nothing about an Attempt."""

    worker: str
    session_id: str
    generation: int
    version: int
    state: str
    seq: int
    expires_ms: int
    journal_id: str
    journal_revision: int
    max_runs: int
    host: str
    capabilities: dict[str, str] = {}
    failures: int = 0
    """Offers in a row that came back or could not be started; from ``PROBATION_AFTER`` on it is on probation."""
    paused_until_ms: int = 0
    """On probation: nothing is offered before this moment."""


class Worker(msgspec.Struct, frozen=True, gc=False):
    """What an operator said about a worker name; it outlives the name's Sessions."""

    name: str
    cordon: Literal["", "cordoned", "draining"] = ""
    """``cordoned``: gets nothing new. ``draining``: also ends once nothing of it runs."""
    at_ms: int = 0
    by: str = ""
    reason: str = ""


class WorkerToken(msgspec.Struct, frozen=True, gc=False):
    """A credential of a worker name: only its SHA-256 is kept."""

    digest: str
    worker: str
    created_ms: int
    by: str = ""
    revoked_ms: int | None = None


class Audit(msgspec.Struct, frozen=True, gc=False):
    """What somebody did, or was denied, that is not a Run's Event."""

    audit_id: str
    at_ms: int
    actor: str
    action: str
    subject: str
    outcome: Literal["done", "refused"]
    detail: str = ""


class Event(msgspec.Struct, frozen=True, gc=False):
    """One thing that happened to a Run, in its order. ``data`` is what ``explain`` needs to tell it."""

    run_id: str
    version: int
    at_ms: int
    kind: str
    data: dict[str, Any]


class LateEvidence(msgspec.Struct, frozen=True, gc=False):
    """A refused report, kept (I4): one row per Attempt and digest, capped."""

    run_id: str
    step: str
    attempt: int
    digest: str
    at_ms: int
    reason: str
    body: str


class Evidence(msgspec.Struct, frozen=True, gc=False):
    """A recorded answer about whether an Attempt's execution is there. Design sections 6 and 9."""

    run_id: str
    step: str
    attempt: int
    answer: Literal["running", "not_running", "never_began", "unknown"]
    provider: str
    at_ms: int
    detail: str = ""
    proof: str = ""
    """Which of the accepted proofs it carries: tree_gone, boot_changed, not_begun."""
    generation: int = 0
    """Of the Lease that it speaks about: an answer about one delivery is void for the next."""
    version: int = 0
    """Of that Lease when it came. A report that was accepted later raised it, and made the answer void; no clock
    is asked for this order, since clocks step back."""


class Task(msgspec.Struct, frozen=True, gc=False):
    """The head of a task definition: which revision new Runs pin."""

    task_id: str
    project: str
    name: str
    source: str
    revision: int
    digest: str
    created_ms: int
    removed_ms: int | None = None


class Trigger(msgspec.Struct, frozen=True, gc=False):
    """The head of a trigger. Everything at or before ``cursor_ms`` is settled (I6)."""

    trigger_id: str
    task_id: str
    name: str
    spec: bytes
    """Canonical JSON of the ``TriggerSpec``."""
    anchor_ms: int
    """When the trigger was first published: where ``every`` counts from."""
    cursor_ms: int
    next_ms: int | None


class Occurrence(msgspec.Struct, frozen=True, gc=False):
    """One row for every admitted or skipped occurrence; a skip may stand for ``count`` of them (I9)."""

    trigger_id: str
    key: str
    """Unique within the trigger: the moment in ms as text, or a boot id."""
    at_ms: int
    last_ms: int
    count: int
    run_id: str | None
    reason: str


class Gate(msgspec.Struct, frozen=True, gc=False):
    """One limit key with who occupies it and who waits at it, oldest first."""

    key: str
    capacity: int
    occupants: tuple[str, ...] = ()
    waiting: tuple[str, ...] = ()

    @property
    def room(self) -> int:
        """Free places; negative when an explicit override went over the limit."""
        return self.capacity - len(self.occupants)


class RevisionRow(msgspec.Struct, frozen=True, gc=False):
    """One immutable revision of a task."""

    task_id: str
    revision: int
    digest: str
    spec: bytes
    created_ms: int


class RunKey(msgspec.Struct, frozen=True, gc=False):
    """An idempotency key, the digest of what was asked with it, and the Run that it admitted."""

    project: str
    key: str
    digest: str
    run_id: str


class Limit(msgspec.Struct, frozen=True, gc=False):
    """The capacity of a concurrency group's gate."""

    key: str
    capacity: int


class Removed(msgspec.Struct, frozen=True, gc=False):
    """A trigger that its task no longer has."""

    trigger_id: str
