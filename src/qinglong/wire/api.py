"""What the public API says, as JSON: shared by the server and the command line (``/api/v1``).

Times are UTC milliseconds in ``*_ms`` fields, durations too, sizes bytes; absent values are left out. The
``*Query`` structs are query parameters.
"""

from __future__ import annotations

from typing import Annotated, Any, Final

import msgspec

from qinglong.limits import LIST_CAP, LIST_PAGE, LOG_READ_BYTES, NAME_CHARS, REASON_BYTES, SECOND

WAIT_MAX_MS: Final = 30 * SECOND
"""Longest wait of one long poll."""
KEY_CHARS: Final = 200
"""Longest ``Idempotency-Key``."""

Name = Annotated[str, msgspec.Meta(max_length=NAME_CHARS)]
Count = Annotated[int, msgspec.Meta(ge=0, le=(1 << 53) - 1)]
"""A number that every JSON reader keeps exactly."""


class RunInfo(msgspec.Struct, frozen=True, omit_defaults=True):
    """One Run as lists show it."""

    run_id: str
    project: str
    task: str
    revision: int
    cause: str
    state: str
    created_ms: int
    attempt: int
    version: int
    scheduled_ms: int | None = None
    started_ms: int | None = None
    """When its first command began, as far as the list knows; details have it per Attempt."""
    finished_ms: int | None = None
    held_by: str = ""
    unreachable_ms: int | None = None
    available_ms: int | None = None
    """In retry_wait: when the next Attempt is due."""
    cancelling: bool = False
    reason: str = ""
    exit_code: int | None = None
    signal: int | None = None


class AttemptInfo(msgspec.Struct, frozen=True, omit_defaults=True):
    """One Attempt of a Run."""

    number: int
    status: str
    created_ms: int
    worker: str = ""
    claimed_ms: int | None = None
    starting_ms: int | None = None
    running_ms: int | None = None
    ended_ms: int | None = None
    timeout_at_ms: int | None = None
    reason: str = ""
    exit_code: int | None = None
    signal: int | None = None
    log_bytes: int | None = None
    log_dropped: int | None = None
    log_digest: str = ""


class EventInfo(msgspec.Struct, frozen=True, omit_defaults=True):
    """One Event of a Run; ``text`` tells it in a plain sentence."""

    version: int
    at_ms: int
    kind: str
    text: str = ""
    data: dict[str, Any] = {}


class RunDetail(msgspec.Struct, frozen=True, omit_defaults=True):
    """One Run with everything that explains it. ``now`` says where it stands and what it waits for."""

    run: RunInfo
    attempts: tuple[AttemptInfo, ...]
    events: tuple[EventInfo, ...]
    now: tuple[str, ...] = ()
    """Sentences: the present state, what it waits for, which policy governs it, what would resolve it."""
    late_reports: int = 0
    policy: dict[str, Any] = {}


class RunList(msgspec.Struct, frozen=True, omit_defaults=True):
    """A page of Runs, newest first; pass ``next`` as ``before`` for the following page."""

    runs: tuple[RunInfo, ...]
    next: str = ""


class TriggerInfo(msgspec.Struct, frozen=True, omit_defaults=True):
    """One trigger of a task."""

    id: str
    kind: str
    text: str
    """The schedule in words."""
    expr: str = ""
    zone: str = ""
    next_ms: int | None = None


class TaskInfo(msgspec.Struct, frozen=True, omit_defaults=True):
    """One task as lists show it."""

    name: str
    project: str
    source: str
    revision: int
    command: str
    """One line that names what runs."""
    triggers: tuple[TriggerInfo, ...] = ()
    next_ms: int | None = None
    last: RunInfo | None = None
    skipped: int = 0
    """Skipped occurrences on record."""
    labels: dict[str, str] = {}
    notes: str = ""


class TaskList(msgspec.Struct, frozen=True, omit_defaults=True):
    """Every task of a project, by name."""

    tasks: tuple[TaskInfo, ...]


class SkippedInfo(msgspec.Struct, frozen=True, omit_defaults=True):
    """Occurrences that admitted no Run, and why."""

    trigger: str
    at_ms: int
    last_ms: int
    count: int
    reason: str


class TaskDetail(msgspec.Struct, frozen=True, omit_defaults=True):
    """One task with its newest Runs and skipped occurrences."""

    task: TaskInfo
    spec: dict[str, Any]
    runs: tuple[RunInfo, ...] = ()
    skipped: tuple[SkippedInfo, ...] = ()


class RunRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``POST /api/v1/runs``: start a task by hand. The idempotency key is the ``Idempotency-Key`` header."""

    task: Name
    project: Name = "default"
    allow_overlap: bool = False


class CancelRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``POST /api/v1/runs/{run}/cancel``."""

    reason: Annotated[str, msgspec.Meta(max_length=REASON_BYTES)] = ""


class TasksQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which project's tasks, or which project the task is in."""

    project: Name = "default"


class RunsQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which Runs a list shows."""

    project: Name = "default"
    task: Name = ""
    state: Name = ""
    """A Run state, or ``open``: every state that is not final."""
    since_ms: Count | None = None
    unreachable: bool = False
    before: Annotated[str, msgspec.Meta(max_length=36, pattern="^[0-9a-f-]*$")] = ""
    """``next`` of the page before."""
    limit: Annotated[int, msgspec.Meta(ge=1, le=LIST_CAP)] = LIST_PAGE


class ChangesQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """From which Event on, and how long to wait for it."""

    after: Count = 0
    """The ``version`` that the caller knows."""
    wait_ms: Annotated[int, msgspec.Meta(ge=0, le=WAIT_MAX_MS)] = 0


class LogQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which bytes of which log."""

    attempt: Annotated[int, msgspec.Meta(ge=1, le=1_000_000)] | None = None
    """Absent: the newest Attempt that has a log."""
    step: Name = ""
    offset: Count = 0
    limit: Annotated[int, msgspec.Meta(ge=1, le=LOG_READ_BYTES)] = LOG_READ_BYTES


class Problem(msgspec.Struct, frozen=True, omit_defaults=True):
    """RFC 9457 problem details; ``code`` is stable, ``exit_code`` is what the command line ends with."""

    type: str
    title: str
    status: int
    detail: str
    code: str
    place: str = ""
    remedy: str = ""
    exit_code: int = 1
    fields: tuple[dict[str, str], ...] = ()


class VersionInfo(msgspec.Struct, frozen=True, omit_defaults=True):
    """``GET /api/v1/version``."""

    version: str
    profile: str
    python: str
    sqlite: str = ""
    schema: int = 0
    data: str = ""


class Health(msgspec.Struct, frozen=True):
    """``GET /healthz``: the process answers. It says nothing about the database."""

    alive: bool = True


class Readiness(msgspec.Struct, frozen=True, omit_defaults=True):
    """``GET /readyz``: 200 when ``ready``, else 503 with the reasons."""

    ready: bool
    reasons: tuple[str, ...] = ()
