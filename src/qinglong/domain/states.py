"""The state tables, as data (design section 4).

Checks in code, the SQL CHECK constraints and the charts in ``docs/states.md`` derive from these dicts: a
transition that is not listed here does not exist.
"""

from __future__ import annotations

from typing import Final

from qinglong.errors import Damaged

Table = dict[str, frozenset[str]]


def _table(rows: dict[str, str]) -> Table:
    return {state: frozenset(targets.split()) for state, targets in rows.items()}


RUN: Final = _table(
    {
        "created": "queued cancelled timed_out",
        "queued": "created dispatching cancelled timed_out",
        "dispatching": "queued running retry_wait succeeded failed cancelled timed_out lost",
        "running": "retry_wait succeeded failed cancelled timed_out lost",
        "retry_wait": "queued created failed cancelled timed_out",
        "lost": "retry_wait failed cancelled timed_out",
        "succeeded": "",
        "failed": "",
        "cancelled": "",
        "timed_out": "",
    }
)

ATTEMPT: Final = _table(
    {
        "claimed": "starting failed cancelled timed_out lost",
        "starting": "running succeeded failed cancelled timed_out lost",
        "running": "succeeded failed cancelled timed_out lost",
        "succeeded": "",
        "failed": "",
        "cancelled": "",
        "timed_out": "",
        "lost": "",
    }
)

LEASE: Final = _table({"leased": "released completed", "released": "", "completed": ""})

SESSION: Final = _table({"online": "draining offline", "draining": "offline", "offline": ""})

RUN_FINAL: Final = frozenset({"succeeded", "failed", "cancelled", "timed_out"})
"""``lost`` is not final: the retry rules settle it (I8)."""

ATTEMPT_FINAL: Final = frozenset({"succeeded", "failed", "cancelled", "timed_out", "lost"})

RELEASE_REASONS: Final = frozenset(
    {"declined", "shutdown", "start_failed", "capacity_changed", "lease_expired", "cancelled"}
)

HELD_BY: Final = frozenset({"overlap", "concurrency"})


def check(table: Table, before: str, after: str, what: str, name: str) -> None:
    """Refuse a transition that the table does not list.

    Staying in a state is no transition. Raises :class:`Damaged`: reaching it is a fault of ours, never input.
    """
    if before == after or after in table[before]:
        return
    raise Damaged("unlawful_transition", f"{what} {name} cannot go from {before} to {after}")
