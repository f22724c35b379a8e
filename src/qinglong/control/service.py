"""What the control plane offers to its edges (API, command line, profiles): the ports of this package.

The edges depend on these Protocols only; ``profiles/`` wires the real things together.
"""

from __future__ import annotations

from typing import Protocol

import msgspec

from qinglong.domain.records import Run
from qinglong.ledger.port import Queries


class LogChunk(msgspec.Struct, frozen=True):
    """A piece of an Attempt's output by logical offset: bytes as the command wrote them."""

    data: bytes
    offset: int
    """Logical offset of ``data[0]``."""
    next_offset: int
    """Where to read on."""
    end: bool
    """Nothing lies after ``next_offset`` now; the Attempt may still be writing."""
    gap: tuple[int, int] | None = None
    """(start, end) of the bytes before ``offset`` that were cut out because of the cap."""


class Logs(Protocol):
    """Attempts' output: readable while running and after the end."""

    async def read(self, run_id: str, step: str, number: int, offset: int, limit: int) -> LogChunk | None:
        """At most ``limit`` bytes from ``offset``; ``None`` if there is no log."""
        ...


class Control(Protocol):
    """Everything that a person can ask for. Raises the errors of ``qinglong.errors``."""

    @property
    def queries(self) -> Queries: ...

    @property
    def logs(self) -> Logs: ...

    async def run(
        self, project: str, task: str, *, by: str, allow_overlap: bool = False, key: str = ""
    ) -> Run:
        """Admit a Run by hand. ``NotFound`` (no such task), ``Refused`` (overlap, queue full), ``Conflict`` (the
        key was used for something else). The same key again returns the Run that it made.
        """
        ...

    async def cancel(self, run_id: str, *, by: str, reason: str = "") -> Run:
        """Ask a Run to end: at once if it has not started, else by a stop. ``NotFound``, ``Refused`` (final)."""
        ...

    async def find(self, text: str) -> str:
        """The full id that a person's short form means. ``NotFound``; ``Invalid`` when it is ambiguous."""
        ...

    async def spec(self, task_id: str, revision: int) -> bytes | None:
        """Canonical JSON of a pinned revision."""
        ...

    async def changed(self, run_id: str, after: int, wait_ms: int) -> int:
        """The Run's version once it is greater than ``after``, or as it is after ``wait_ms``; no polling inside."""
        ...

    def reasons_not_ready(self) -> tuple[str, ...]:
        """Why ``/readyz`` says no; empty when ready."""
        ...

    def figures(self) -> dict[str, float]:
        """Counters of this process for ``/metrics``, by dotted name: cycles, refusals, commits, starts."""
        ...
