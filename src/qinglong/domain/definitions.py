"""What people define: tasks, triggers, limits. Immutable values; a change makes a new revision.

A revision is identified by the SHA-256 of its canonical JSON. Durations are milliseconds, sizes bytes, times
UTC milliseconds. Source: design sections 3, 7, 10 and 11; the file form is ``wire/jobfile``.
"""

from __future__ import annotations

import hashlib
from functools import lru_cache
from typing import Literal

import msgspec

from qinglong.limits import STOP_GRACE_MS

Cause = Literal["failed", "timed_out", "lost"]
Safety = Literal["idempotent", "deduplicated"]


class Backoff(msgspec.Struct, frozen=True, omit_defaults=True):
    """Delay before the next Attempt: ``initial * factor ** n``, at most ``max``; jittered and floored."""

    initial_ms: int = 10_000
    factor: float = 2.0
    max_ms: int = 600_000


class Retry(msgspec.Struct, frozen=True, omit_defaults=True):
    """May another Attempt follow? ``max_attempts`` counts start barriers passed, in total."""

    max_attempts: int = 1
    when: tuple[Cause, ...] = ("failed", "timed_out")
    backoff: Backoff = Backoff()


class Overlap(msgspec.Struct, frozen=True, omit_defaults=True):
    """What happens when a Run is due while an older one of the same task is not final."""

    kind: Literal["skip", "replace", "allow", "queue"] = "skip"
    size: int = 0
    """How many Runs may wait, for ``queue`` only."""


class Missed(msgspec.Struct, frozen=True, omit_defaults=True):
    """What happens with occurrences that passed while nobody could admit them."""

    kind: Literal["skip", "latest", "all"] = "latest"
    limit: int = 0
    """How many are admitted, newest first to be kept, for ``all`` only."""


class Stop(msgspec.Struct, frozen=True, omit_defaults=True):
    """How a running command is asked to end, and how long until it is killed."""

    signal: str = "SIGTERM"
    grace_ms: int = STOP_GRACE_MS


class OnLeaseLoss(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a cut-off worker does with the job: finish and report late, or stop after a while."""

    kind: Literal["keep", "stop_after"] = "keep"
    after_ms: int = 0


class Command(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is executed.

    ``text``: a shell text, run by ``sh -e -c`` or ``bash -eo pipefail -c``; ``argv``: a program and its
    arguments, no shell; ``script``: a file (read at launch on the executing machine) and its arguments, run
    by its ``#!`` line if executable, else by the interpreter its suffix names.
    """

    kind: Literal["text", "argv", "script"]
    text: str = ""
    argv: tuple[str, ...] = ()
    script: str = ""
    args: tuple[str, ...] = ()
    shell: Literal["sh", "bash"] = "sh"


class Secret(msgspec.Struct, frozen=True, omit_defaults=True):
    """A value that is read from a file at launch and never stored."""

    file: str


class Placement(msgspec.Struct, frozen=True, omit_defaults=True):
    """Which workers may, and which should, run the task: capability name to accepted values."""

    required: dict[str, tuple[str, ...]] = {}
    preferred: dict[str, tuple[str, ...]] = {}


class TriggerSpec(msgspec.Struct, frozen=True, omit_defaults=True):
    """When a task runs. ``id`` is unique within its task and survives edits.

    ``cron``: ``expr`` in IANA zone ``zone``. ``every``: each ``every_ms`` counted from the trigger's first
    publication. ``at``: once, at ``at_ms``. ``boot``: once per boot of the machine.
    """

    id: str
    kind: Literal["cron", "every", "at", "boot"]
    expr: str = ""
    zone: str = "UTC"
    every_ms: int = 0
    at_ms: int = 0
    missed: Missed = Missed()


class TaskSpec(msgspec.Struct, frozen=True, omit_defaults=True):
    """One task as its author wrote it, resolved against the file's defaults."""

    name: str
    command: Command
    cwd: str
    """Absolute path."""
    user: str = ""
    """Name of the account that runs it; empty: the worker's own."""
    env: dict[str, str] = {}
    env_file: tuple[str, ...] = ()
    """Absolute paths, read in order at launch; ``env`` wins over them."""
    secrets: dict[str, Secret] = {}
    timeout_ms: int | None = None
    start_within_ms: int | None = None
    deadline_ms: int | None = None
    safety: Safety | None = None
    retry: Retry = Retry()
    overlap: Overlap = Overlap()
    missed: Missed = Missed()
    on_lease_loss: OnLeaseLoss = OnLeaseLoss()
    stop: Stop = Stop()
    concurrency: str = ""
    """Name of a concurrency group of the project; empty: none."""
    placement: Placement = Placement()
    labels: dict[str, str] = {}
    notes: str = ""
    triggers: tuple[TriggerSpec, ...] = ()


class FileSet(msgspec.Struct, frozen=True, omit_defaults=True):
    """Everything that one set of job files defines for one project."""

    project: str = "default"
    concurrency_groups: dict[str, int] = {}
    """Group name to how many Runs at once (at least 1)."""
    tasks: tuple[TaskSpec, ...] = ()


_ENCODER = msgspec.json.Encoder(order="deterministic")


def digest(spec: TaskSpec) -> str:
    """Hex SHA-256 of the canonical JSON: equal text, equal revision."""
    return hashlib.sha256(_ENCODER.encode(spec)).hexdigest()


def encode(spec: TaskSpec) -> bytes:
    """Canonical JSON of a revision."""
    return _ENCODER.encode(spec)


def decode(raw: bytes | str) -> TaskSpec:
    """The inverse of :func:`encode`; raises ``msgspec.ValidationError`` on a damaged record."""
    return _DECODER.decode(raw)


@lru_cache(maxsize=256)
def decode_cached(raw: bytes) -> TaskSpec:
    """:func:`decode` for hot paths; specs are immutable values."""
    return decode(raw)


_DECODER = msgspec.json.Decoder(TaskSpec)

__all__ = [
    "Backoff",
    "Cause",
    "Command",
    "FileSet",
    "Missed",
    "OnLeaseLoss",
    "Overlap",
    "Placement",
    "Retry",
    "Safety",
    "Secret",
    "Stop",
    "TaskSpec",
    "TriggerSpec",
    "decode",
    "decode_cached",
    "digest",
    "encode",
]
