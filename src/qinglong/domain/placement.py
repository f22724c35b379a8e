"""Placement: which workers may run a task, and which should (design sections 5 and 16).

A revision's placement becomes a *key*, its canonical JSON; the key stands on the Run and in the queue, so that a page
of candidates holds only what one worker can run. The empty key is satisfied by every worker.
"""

from __future__ import annotations

from functools import lru_cache

import msgspec

from qinglong.domain.definitions import Placement
from qinglong.limits import PREFER_MS

_encode = msgspec.json.Encoder(order="deterministic").encode
_decode = msgspec.json.Decoder(Placement).decode


def key(placement: Placement) -> str:
    """The placement's key; equal placements have equal keys, whatever the order they were written in."""
    if not placement.required and not placement.preferred:
        return ""
    return _encode(Placement(_sorted(placement.required), _sorted(placement.preferred))).decode()


def _sorted(wishes: dict[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
    return {name: tuple(sorted(set(values))) for name, values in wishes.items()}


@lru_cache(maxsize=4096)
def read(text: str) -> Placement:
    """The placement that a key stands for."""
    return _decode(text) if text else Placement()


def missing(text: str, capabilities: dict[str, str]) -> tuple[str, ...]:
    """Names of the required capabilities that a worker lacks; empty: it may run it."""
    return _lacking(read(text).required, capabilities)


def prefers_another(text: str, capabilities: dict[str, str]) -> bool:
    """Whether a worker lacks one of the preferred capabilities."""
    return bool(_lacking(read(text).preferred, capabilities))


def still_preferred(text: str, capabilities: dict[str, str], queued_ms: int, now_ms: int) -> bool:
    """Whether a Run, queued since ``queued_ms``, still waits for a worker that it prefers to this one."""
    return now_ms - queued_ms < PREFER_MS and prefers_another(text, capabilities)


def _lacking(wishes: dict[str, tuple[str, ...]], capabilities: dict[str, str]) -> tuple[str, ...]:
    return tuple(name for name, accepted in wishes.items() if capabilities.get(name) not in accepted)
