"""The port to the database that is the one authority (design section 5).

``transact`` locks what ``keys`` name, reads the clock, lets a pure ``decide`` work on a
:class:`~qinglong.domain.change.Draft`, applies the draft and commits: once, or not at all. Everything else
here is reading. SQLite implements it today; whatever implements it must pass ``tests/contract``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

import msgspec

from qinglong.domain.change import Draft
from qinglong.domain.records import (
    Attempt,
    Event,
    Evidence,
    Lease,
    Occurrence,
    Run,
    Session,
    Task,
    Trigger,
    Worker,
    WorkerToken,
)

T = TypeVar("T")


class Pull(msgspec.Struct, frozen=True):
    """What a worker's pull has to see."""

    limit: int
    """Most queued Runs to load."""
    placements: tuple[str, ...] = ("",)
    """Placement keys that the worker satisfies; queued Runs with others are not loaded."""
    wanted: tuple[str, ...] = ()
    """Offer ids of its wants: what was granted for one of them before is loaded too."""


class Keys(msgspec.Struct, frozen=True):
    """What a transaction locks and loads, in the lock order of design section 5."""

    worker: str = ""
    """Load this worker's Session, and what an operator said about the name."""
    runs: tuple[str, ...] = ()
    """Load these Runs with their newest Attempts and Leases; unknown ids are simply absent."""
    raced: bool = False
    """``runs`` are candidates: one that somebody else works on is absent too, instead of waited for."""
    frees: bool = False
    """These Runs may leave their gates: load the gates and the Runs that could be promoted."""
    gates: tuple[str, ...] = ()
    """Load these gates, whether or not a Run here stands at them."""
    members: bool = False
    """Also load the Runs that stand at ``gates`` (for ``overlap: replace``)."""
    evidence: bool = False
    """Load the newest recorded evidence of these Runs' Attempts."""
    triggers: tuple[str, ...] = ()
    """Load these triggers with their tasks and pinned specs."""
    tasks: tuple[str, ...] = ()
    """Load these task heads by id, with their specs."""
    run_key: tuple[str, str] | None = None
    """(project, idempotency key): load the Run that it admitted, if any."""
    project: str = ""
    """Load every task head and trigger of this project, for publishing."""
    occurrences: tuple[tuple[str, str], ...] = ()
    """(trigger id, occurrence key): tell which of these were answered before."""
    fences: bool = False
    """Fence numbers will be drawn."""
    pull: Pull | None = None
    """``worker`` pulls: load the queued Runs that it may be offered, and the offer ids that it holds."""


class Due(msgspec.Struct, frozen=True):
    """Which steps of a cycle have work, and when the next moment comes; one read."""

    recover: bool
    retry: bool
    trigger: bool
    next_ms: int | None
    offers: tuple[str, ...] = ()
    """Placement keys of queued Runs: pulls that wait should look."""


class Page(msgspec.Struct, frozen=True):
    """Candidate ids of one step, and whether there are more."""

    ids: tuple[str, ...]
    more: bool


class RunFilter(msgspec.Struct, frozen=True):
    """Which Runs a list shows, newest first."""

    project: str = "default"
    task: str = ""
    state: str = ""
    """A Run state, or ``open`` for every state that is not final."""
    since_ms: int | None = None
    unreachable: bool = False
    before: str = ""
    """Cursor: only Runs with a smaller id."""
    limit: int = 50


class RunView(msgspec.Struct, frozen=True):
    """One Run with everything that explains it."""

    run: Run
    attempts: tuple[Attempt, ...]
    lease: Lease | None
    events: tuple[Event, ...]
    evidence: tuple[Evidence, ...]
    late: int
    """How many refused reports are kept."""
    waits_for: tuple[str, ...] = ()
    """Runs that occupy the gate at which this one is held."""


class TaskView(msgspec.Struct, frozen=True):
    """A task head with what a list of tasks shows."""

    task: Task
    spec: bytes
    triggers: tuple[Trigger, ...]
    last: Run | None
    skipped: int
    """Skipped occurrences on record."""


class WorkerView(msgspec.Struct, frozen=True):
    """A worker name with its newest Session and what it holds."""

    worker: Worker
    session: Session | None
    leases: int
    """Live Leases under its name."""
    tokens: int
    """Tokens that are not revoked."""


class Ledger(Protocol):
    """Changes. Raises ``Unavailable`` (nothing happened), ``Unknown`` (it may have), ``Damaged``."""

    async def transact(self, keys: Keys, decide: Callable[[Draft], T]) -> T:
        """One transaction; ``decide`` is synchronous and pure, and may be called again after a lost race."""
        ...

    async def due(self) -> Due:
        """The cycle's one cheap question."""
        ...

    async def recover_page(self, limit: int, *, hold_claimed: bool = False) -> Page:
        """Runs whose newest Attempt recovery has to judge: new evidence first, then by due time.

        ``hold_claimed`` leaves ``claimed`` Attempts out: after a gap their workers renew first (design section 8).
        """
        ...

    async def retry_page(self, limit: int) -> Page:
        """Runs that are lost, due for retry, past a deadline, or held at a gate that has room."""
        ...

    async def trigger_page(self, limit: int) -> Page:
        """Triggers with a due occurrence, oldest first."""
        ...

    async def unstarted_of_removed(self) -> Page:
        """Open Runs of tasks that were removed: those that have not started are cancelled."""
        ...

    async def specs(self, wanted: tuple[tuple[str, int], ...]) -> dict[tuple[str, int], bytes]:
        """Canonical JSON of pinned revisions, by (task id, revision)."""
        ...

    async def leases_of(self, worker: str) -> tuple[Lease, ...]:
        """Every live Lease of a worker name, whichever session wrote it."""
        ...

    async def worker_of_token(self, digest: str) -> str | None:
        """The worker name that a token's digest stands for; ``None``: unknown or revoked."""
        ...

    def on_commit(self, listener: Callable[[Hints], None]) -> None:
        """Call ``listener`` on the loop after each commit that made work; a hint, never an authority."""
        ...


class Hints(msgspec.Struct, frozen=True):
    """What a commit made: work to offer, a moment to wake at, or a wish for a worker."""

    queued: tuple[str, ...] = ()
    """Placement keys of the Runs that were queued."""
    due_ms: int | None = None
    stops: tuple[str, ...] = ()
    """Workers that have a stop directive waiting."""
    changed: tuple[str, ...] = ()
    """Runs that have new Events."""
    skipped: tuple[tuple[str, int], ...] = ()
    """(reason, how many occurrences) that were skipped, for counting (I9)."""
    gap: bool = False
    """The authority was out of reach, or is another server: workers renew first (design section 8)."""


class Queries(Protocol):
    """Reading for people; never used to decide anything."""

    async def runs(self, where: RunFilter) -> tuple[Run, ...]: ...

    async def run(self, run_id: str) -> RunView | None: ...

    async def find_run(self, text: str) -> tuple[str, ...]:
        """Full ids that a person's short form may mean: an id, its start, its end, or a task's newest Run."""
        ...

    async def events(self, run_id: str, after: int) -> tuple[Event, ...]: ...

    async def tasks(self, project: str) -> tuple[TaskView, ...]: ...

    async def task(self, project: str, name: str) -> TaskView | None: ...

    async def occurrences(self, trigger_id: str, limit: int) -> tuple[Occurrence, ...]: ...

    async def sessions(self) -> tuple[Session, ...]: ...

    async def workers(self) -> tuple[WorkerView, ...]:
        """Every worker name that ever registered or that an operator spoke of."""
        ...

    async def worker_tokens(self, worker: str) -> tuple[WorkerToken, ...]:
        """A worker name's tokens, newest first, revoked ones too; at most ``LIST_CAP``."""
        ...

    async def counts(self) -> dict[str, float]:
        """Gauges for metrics: Runs by open state and ages of the oldest, in one read."""
        ...
