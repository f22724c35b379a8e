"""Everything non-deterministic comes through here: clocks, random numbers, ids, waiting.

The rules and services take these as arguments, so that a simulator can replace every one of them. Files and
processes come through the worker's host port (``worker/host.py``), databases through the ledger port.
"""

from __future__ import annotations

import os
import random  # noqa: TID251 - this is the adapter
import time
from typing import Protocol

_RNG = random.SystemRandom()


class Clock(Protocol):
    """The machine's clocks."""

    def wall_ms(self) -> int:
        """UTC milliseconds since 1970; may step."""
        ...

    def boot_ms(self) -> int:
        """``CLOCK_BOOTTIME`` in milliseconds: counts through suspension, never steps (I11)."""
        ...


class Rng(Protocol):
    """Randomness: tokens, jitter, ids."""

    def token_bytes(self, count: int) -> bytes:
        """``count`` unpredictable bytes."""
        ...

    def fraction(self) -> float:
        """A float in [0, 1), for jitter."""
        ...


class SystemClock:
    """The real clocks of this machine."""

    def wall_ms(self) -> int:
        return time.time_ns() // 1_000_000  # noqa: TID251 - this is the adapter

    def boot_ms(self) -> int:
        return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1_000_000


class SystemRng:
    """The operating system's generator."""

    def token_bytes(self, count: int) -> bytes:
        return os.urandom(count)

    def fraction(self) -> float:
        return _RNG.random()


class Ids:
    """UUIDv7 identifiers (RFC 9562 section 5.7), strictly increasing within one process.

    The 12 bits after the millisecond are a counter, so that ids made in one millisecond keep their order:
    "first in, first out" and "newest first" can then both read the id's index.
    """

    def __init__(self, clock: Clock, rng: Rng) -> None:
        self._clock = clock
        self._rng = rng
        self._last = 0

    def new(self) -> str:
        """A new id in the usual 36-character form."""
        stamp = max(self._clock.wall_ms() << 12, self._last + 1)
        self._last = stamp
        tail = int.from_bytes(self._rng.token_bytes(8)) & ((1 << 62) - 1)
        value = ((stamp >> 12) & ((1 << 48) - 1)) << 80 | 7 << 76 | (stamp & 0xFFF) << 64 | 2 << 62 | tail
        text = f"{value:032x}"
        return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"
