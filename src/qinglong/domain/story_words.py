"""The small words of a Run's story: moments, durations, names, and why another Attempt does not follow.

Every text that a person or a worker gave is made one bounded line without control characters, so that a story
cannot drive the terminal that shows it. Nothing here raises: a story is also told about damaged records.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from qinglong.domain.durations import format_ms
from qinglong.domain.gates import is_overlap
from qinglong.domain.records import Policy
from qinglong.limits import DAY, HOUR, MINUTE, SECOND

Data = Mapping[str, Any]

TEXT_CHARS: Final = 300
"""Longest foreign text inside a sentence."""
_ID_CHARS: Final = 8
_LAST_MS: Final = 253_402_300_799_000
"""The end of the year 9999, where calendars stop."""

_WHY_NOT: Final[dict[str, str]] = {
    "lost_retry_disabled": "its policy allows no other attempt after a loss",
    "lost_retry_unsafe": "the task does not declare `safety`, so whether running it twice does harm is unknown",
    "lost_retry_exhausted": "every allowed attempt is used",
    "retry_disabled": "its policy allows no other attempt after that",
    "retry_exhausted": "every allowed attempt is used",
}

_ACTORS: Final[dict[str, str]] = {
    "overlap": "a newer run of its task (`overlap: replace`)",
    "definitions": "the publication of new definitions",
    "local": "somebody with the local token",
    "": "somebody",
}

_PROVIDERS: Final[dict[str, str]] = {
    "attestation": "its worker's journal",
    "reboot": "its machine's boot record",
    "fenced": "the fencing of its worker",
}

_PROOFS: Final[dict[str, str]] = {
    "tree_gone": "its process tree is gone",
    "boot_changed": "its machine has booted since",
    "not_begun": "its keeper wrote that it never began",
    "receipt": "its keeper wrote how it ended",
}


def moment(at_ms: int) -> str:
    """ISO 8601 in UTC, to the second: ``2026-11-30T18:29:39Z``; a moment outside the calendar as milliseconds."""
    if not 0 <= at_ms <= _LAST_MS:
        return f"{at_ms} ms"
    return datetime.fromtimestamp(at_ms // SECOND, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def lasting(duration_ms: int) -> str:
    """A duration to its two largest units at most, as people say it: ``340ms``, ``5m3s``, ``2d4h``."""
    duration_ms = max(duration_ms, 0)
    for least, unit in ((DAY, HOUR), (HOUR, MINUTE), (SECOND, SECOND)):
        if duration_ms >= least:
            return format_ms(duration_ms // unit * unit)
    return format_ms(duration_ms)


def until(at_ms: int, now_ms: int) -> str:
    """A moment that lies ahead, with how far: ``2026-11-30T18:29:39Z (in 5m)``."""
    ahead = f"in {lasting(at_ms - now_ms)}" if at_ms > now_ms else "now due"
    return f"{moment(at_ms)} ({ahead})"


def since(at_ms: int, now_ms: int) -> str:
    """A moment that has passed, with how long ago: ``2026-11-30T18:29:39Z (5m ago)``."""
    return f"{moment(at_ms)} ({lasting(now_ms - at_ms)} ago)"


def clean(text: str) -> str:
    """Foreign text as one bounded line that is safe to show."""
    line = "".join(letter if letter.isprintable() else " " for letter in text[: TEXT_CHARS + 1])
    line = " ".join(line.split())
    return line if len(text) <= TEXT_CHARS else f"{line[:TEXT_CHARS]}…"


def said(data: Data, key: str) -> str:
    """The text under ``key``, cleaned; empty when it is absent or no text."""
    value = data.get(key)
    return clean(value) if isinstance(value, str) else ""


def number(data: Data, key: str) -> int | None:
    """The integer under ``key``; ``None`` when it is absent or something else."""
    value = data.get(key)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def attempt(data: Data) -> str:
    """``attempt 2``, or ``the attempt`` where the Event does not say which."""
    found = number(data, "attempt")
    return "the attempt" if found is None else f"attempt {found}"


def short(run_id: str) -> str:
    """The end of an id, the form in which people name a Run."""
    return clean(run_id)[-_ID_CHARS:]


def gate(key: str) -> str:
    """A limit key in words."""
    if is_overlap(key):
        return "the overlap limit of its task"
    return f"concurrency group {clean(key).rpartition(':')[2]}"


def actor(by: str) -> str:
    """Who asked for something."""
    return _ACTORS.get(by) or clean(by)


def provider(name: str) -> str:
    """Who gave a piece of evidence."""
    return _PROVIDERS.get(name) or f"evidence provider {clean(name) or 'unknown'}"


def proof(name: str) -> str:
    """What a proof shows; empty when there is none."""
    return _PROOFS.get(name) or clean(name)


def bracketed(*parts: str) -> str:
    """`` (a; b)`` of the parts that are not empty; nothing when all are."""
    inner = "; ".join(part for part in parts if part)
    return f" ({inner})" if inner else ""


def capital(text: str) -> str:
    """The beginning of a sentence; names inside keep their letters."""
    return text[:1].upper() + text[1:]


def count(how_many: int, noun: str, nouns: str = "") -> str:
    """``1 attempt``, ``1,234 bytes``; ``nouns`` is the plural where it is not regular."""
    return f"{how_many:,} {noun if how_many == 1 else nouns or noun + 's'}"


def why_not(code: str) -> str:
    """Why no other Attempt follows, from the code of ``retrying.verdict``; the code itself if it is unknown."""
    return _WHY_NOT.get(code) or clean(code)


def why_not_under(code: str, policy: Policy, cause: str) -> str:
    """The same, with what the policy of this Run says."""
    retry = policy.retry
    if code in {"retry_exhausted", "lost_retry_exhausted"}:
        return f"all {count(retry.max_attempts, 'allowed attempt')} are used (`retry.max_attempts`)"
    if code not in {"retry_disabled", "lost_retry_disabled"}:
        return why_not(code)
    if retry.max_attempts <= 1:
        missing = "the task allows one attempt only (`retry.max_attempts` is 1)"
    else:
        missing = f"the task's `retry.when` does not list `{cause}`"
    if cause == "lost" and policy.safety is None:
        return f"{why_not('lost_retry_unsafe')}; also, {missing}"
    return missing
