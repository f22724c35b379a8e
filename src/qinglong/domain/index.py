"""The small rows that make an open Run findable: derived from the Run alone, so they cannot disagree with it."""

from __future__ import annotations

from typing import NamedTuple

from qinglong.domain.records import Run
from qinglong.domain.states import RUN_FINAL


class QueueRow(NamedTuple):
    """The Run may be offered; ordered by rank (minus priority), then by id, within a placement key."""

    placement: str
    rank: int
    run_id: str
    available_ms: int


def queue_row(run: Run) -> QueueRow | None:
    """The row of a queued Run; ``available_ms`` is 0 where it need not wait."""
    if run.state != "queued":
        return None
    return QueueRow(run.placement, -run.priority, run.run_id, run.available_ms or 0)


def due_ms(run: Run) -> int | None:
    """The next moment at which the retry step has to look at this Run; ``None``: never by itself."""
    if run.state in RUN_FINAL:
        return None
    if run.state == "lost":
        return 0
    moments: list[int] = []
    if run.state == "retry_wait" and run.available_ms is not None:
        moments.append(run.available_ms)
    if run.barriers == 0 and run.start_by_ms is not None:
        moments.append(run.start_by_ms)
    if run.intent is None and run.deadline_ms is not None:
        moments.append(run.deadline_ms)
    return min(moments, default=None)
