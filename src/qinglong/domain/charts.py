"""The state tables as charts: ``docs/states.md`` is this module's output, and a test keeps it so.

python -m qinglong.domain.charts > docs/states.md
"""

from __future__ import annotations

from typing import Final

from qinglong.domain import states
from qinglong.domain.states import Table

_HEAD: Final = """\
# States

Generated from `src/qinglong/domain/states.py` by `python -m qinglong.domain.charts > docs/states.md`. A transition
that is not drawn here does not exist: it is refused in code, and the states themselves by the database.
"""
_MACHINES: Final[tuple[tuple[str, Table, str, str], ...]] = (
    (
        "Run",
        states.RUN,
        "created queued",
        "`created` is admitted but held (see `held_by`), `queued` may be offered, `dispatching` was handed to a"
        " worker. `lost` is not final: the policy that was stored at admission decides what follows.",
    ),
    (
        "Attempt",
        states.ATTEMPT,
        "claimed",
        "Up to `starting`, the start barrier, an Attempt provably never ran; after it only evidence counts.",
    ),
    (
        "Lease",
        states.LEASE,
        "leased",
        "A released Lease says why: "
        + ", ".join(f"`{reason}`" for reason in sorted(states.RELEASE_REASONS))
        + ".",
    ),
    (
        "Session",
        states.SESSION,
        "online",
        "A registration replaces the Session of a worker's name by one of the next generation.",
    ),
)


def chart(table: Table, first: str) -> str:
    """One machine as a Mermaid state diagram; ``first`` names the states that a record is born in."""
    lines = ["stateDiagram-v2"]
    lines += [f"    [*] --> {state}" for state in first.split()]
    for state, targets in table.items():
        lines += [f"    {state} --> {target}" for target in table if target in targets]
        if not targets:
            lines.append(f"    {state} --> [*]")
    return "\n".join(lines)


def page() -> str:
    """The whole of ``docs/states.md``."""
    parts = [_HEAD]
    for name, table, first, words in _MACHINES:
        parts.append(f"## {name}\n\n{words}\n\n```mermaid\n{chart(table, first)}\n```\n")
    return "\n".join(parts)


if __name__ == "__main__":
    print(page(), end="")
