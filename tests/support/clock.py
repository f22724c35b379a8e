"""Clocks and randomness under a test's control."""

from __future__ import annotations

import random

T0 = 1_764_526_020_000
"""A moment to start from: 2025-11-30 18:07:00 UTC, a whole minute."""


class FakeClock:
    """Both clocks of a machine. ``advance`` lets time pass; ``step`` sets the wall clock only."""

    def __init__(self, wall_ms: int = T0, boot_ms: int = 1_000_000) -> None:
        self.wall = wall_ms
        self.boot = boot_ms

    def wall_ms(self) -> int:
        return self.wall

    def boot_ms(self) -> int:
        return self.boot

    def advance(self, ms: int) -> None:
        self.wall += ms
        self.boot += ms

    def step(self, ms: int) -> None:
        self.wall += ms


class FakeRng:
    """Repeatable randomness."""

    def __init__(self, seed: int = 1) -> None:
        self._random = random.Random(seed)

    def token_bytes(self, count: int) -> bytes:
        return self._random.randbytes(count)

    def fraction(self) -> float:
        return self._random.random()
