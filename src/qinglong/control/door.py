"""The door: whether this replica may grant offers and admit occurrences (I7)."""

from __future__ import annotations

from typing import Final

from qinglong.effects import Clock

OVERDUE_MS: Final = 60_000


class Door:
    """Shut at start; opened by a cycle whose recover and retry steps returned, shut by one that threw.

    The disk of the ledger is a second bolt: while it is nearly full, new Runs wait and running ones keep their
    room to finish.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._begun_ms: int | None = None
        self._cycle = "the first cycle has not finished"
        self._disk = ""

    @property
    def is_open(self) -> bool:
        """Whether every bolt is drawn."""
        return not self.reasons

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why it is shut, for people; empty when open."""
        return tuple(reason for reason in (self._cycle, self._overdue(), self._disk) if reason)

    def _overdue(self) -> str:
        if self._begun_ms is None or self._clock.boot_ms() - self._begun_ms < OVERDUE_MS:
            return ""
        return "the cycle is overdue"

    def cycle_begun(self) -> None:
        """A cycle started; it is overdue when steps 1 and 2 take longer than ``OVERDUE_MS``."""
        self._begun_ms = self._clock.boot_ms()

    def cycle_ok(self) -> bool:
        """Steps 1 and 2 of a cycle returned; whether that opened the door."""
        was_shut = bool(self._cycle or self._overdue())
        self._begun_ms = None
        self._cycle = ""
        return was_shut and self.is_open

    def cycle_failed(self, reason: str) -> None:
        """Step 1 or 2 threw."""
        self._begun_ms = None
        self._cycle = f"the last cycle failed: {reason}"

    @property
    def disk_reason(self) -> str:
        """Why the disk's bolt is shut; empty when it is drawn."""
        return self._disk

    def disk(self, reason: str) -> None:
        """The disk bolt: empty draws it."""
        self._disk = reason
