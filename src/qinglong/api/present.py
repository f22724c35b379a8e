"""From the ledger's records to what the API says. Pure: the present moment is an argument."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any, Final

import msgspec

from qinglong.domain import cron, states, story
from qinglong.domain.definitions import Command, TriggerSpec, decode_cached
from qinglong.domain.durations import format_ms
from qinglong.domain.publishing import trigger_spec
from qinglong.domain.records import Attempt, Event, Occurrence, Run, Trigger
from qinglong.errors import Invalid
from qinglong.ledger.port import RunView, TaskView
from qinglong.wire.api import (
    AttemptInfo,
    EventInfo,
    RunDetail,
    RunInfo,
    SkippedInfo,
    TaskDetail,
    TaskInfo,
    TriggerInfo,
)

_COMMAND_CHARS: Final = 120
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def run_info(run: Run, attempts: Iterable[Attempt] = ()) -> RunInfo:
    """A Run as lists show it; its start is known where its Attempts are."""
    began = [attempt.running_ms or attempt.starting_ms for attempt in attempts]
    intent = run.intent
    return RunInfo(
        run_id=run.run_id,
        project=run.project,
        task=run.task,
        revision=run.revision,
        cause=run.cause,
        state=run.state,
        created_ms=run.created_ms,
        attempt=run.attempt,
        version=run.version,
        scheduled_ms=run.scheduled_ms,
        started_ms=min((moment for moment in began if moment is not None), default=None),
        finished_ms=run.finished_ms,
        held_by=run.held_by,
        unreachable_ms=run.unreachable_ms,
        available_ms=run.available_ms if run.state == "retry_wait" else None,
        cancelling=intent is not None and intent.kind == "cancel" and run.state not in states.RUN_FINAL,
        reason=run.reason,
        exit_code=run.exit_code,
        signal=run.signal,
    )


def attempt_info(attempt: Attempt) -> AttemptInfo:
    """One Attempt, without its fences and tokens."""
    return AttemptInfo(
        number=attempt.number,
        status=attempt.status,
        created_ms=attempt.created_ms,
        worker=attempt.worker or "",
        claimed_ms=attempt.claimed_ms,
        starting_ms=attempt.starting_ms,
        running_ms=attempt.running_ms,
        ended_ms=attempt.ended_ms,
        timeout_at_ms=attempt.timeout_at_ms,
        reason=attempt.reason,
        exit_code=attempt.exit_code,
        signal=attempt.signal,
        log_bytes=attempt.log_bytes,
        log_dropped=attempt.log_dropped,
        log_digest=attempt.log_digest or "",
    )


def event_info(event: Event) -> EventInfo:
    """One Event with its sentence."""
    return EventInfo(event.version, event.at_ms, event.kind, story.tell(event), event.data)


def run_detail(view: RunView, events: Iterable[Event], now_ms: int, shut: tuple[str, ...] = ()) -> RunDetail:
    """One Run with everything that explains it; ``events`` are those to show, ``shut`` is why nothing starts now."""
    policy: dict[str, Any] = msgspec.to_builtins(view.run.policy)
    return RunDetail(
        run=run_info(view.run, view.attempts),
        attempts=tuple(map(attempt_info, view.attempts)),
        events=tuple(map(event_info, events)),
        now=(*story.now(view, now_ms), *_paused(view, shut)),
        late_reports=view.late,
        policy=policy,
    )


def _paused(view: RunView, shut: tuple[str, ...]) -> tuple[str, ...]:
    """A Run that could start waits for the door too (I7)."""
    if view.run.state != "queued":
        return ()
    return tuple(f"No run is started at present: {reason}." for reason in shut)


def task_info(view: TaskView) -> TaskInfo:
    """One task as lists show it."""
    spec = decode_cached(view.spec)
    coming = [trigger.next_ms for trigger in view.triggers if trigger.next_ms is not None]
    return TaskInfo(
        name=view.task.name,
        project=view.task.project,
        source=view.task.source,
        revision=view.task.revision,
        command=command_line(spec.command),
        triggers=tuple(map(trigger_info, view.triggers)),
        next_ms=min(coming, default=None),
        last=None if view.last is None else run_info(view.last),
        skipped=view.skipped,
        labels=spec.labels,
        notes=spec.notes,
    )


def task_detail(view: TaskView, runs: Iterable[Run], skipped: Iterable[SkippedInfo]) -> TaskDetail:
    """One task with its newest Runs and skipped occurrences, newest first."""
    spec: dict[str, Any] = msgspec.json.decode(view.spec)
    return TaskDetail(
        task=task_info(view),
        spec=spec,
        runs=tuple(map(run_info, runs)),
        skipped=tuple(sorted(skipped, key=lambda one: one.last_ms, reverse=True)),
    )


def skipped_info(trigger: Trigger, occurrence: Occurrence) -> SkippedInfo:
    """Occurrences that admitted no Run (I9)."""
    return SkippedInfo(
        trigger.name, occurrence.at_ms, occurrence.last_ms, occurrence.count, occurrence.reason
    )


def trigger_info(trigger: Trigger) -> TriggerInfo:
    """One trigger, in words."""
    spec = trigger_spec(trigger)
    is_cron = spec.kind == "cron"
    return TriggerInfo(
        id=trigger.name,
        kind=spec.kind,
        text=trigger_text(spec),
        expr=spec.expr,
        zone=spec.zone if is_cron else "",
        next_ms=trigger.next_ms,
    )


def trigger_text(spec: TriggerSpec) -> str:
    """When it fires, as a person says it."""
    if spec.kind == "cron":
        return f"{_cron_words(spec.expr)} ({spec.zone})"
    if spec.kind == "every":
        return f"every {format_ms(spec.every_ms)}"
    if spec.kind == "at":
        return f"once, at {_moment(spec.at_ms)}"
    return "at every boot of the machine"


@lru_cache(maxsize=1_024)
def _cron_words(expr: str) -> str:
    try:
        return cron.describe(expr)
    except Invalid:
        # Accepted by an older engine: showing it as it is beats showing nothing.
        return expr


def _moment(at_ms: int) -> str:
    try:
        moment = _EPOCH + timedelta(milliseconds=at_ms)
    except OverflowError:
        return f"{at_ms} ms"
    return moment.isoformat(sep=" ", timespec="seconds").replace("+00:00", " UTC")


def command_line(command: Command) -> str:
    """One line that names what runs: never more than a list can show."""
    if command.kind == "argv":
        text = shlex.join(command.argv)
    elif command.kind == "script":
        text = shlex.join((command.script, *command.args))
    else:
        text = command.text
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    line = lines[0] if lines else ""
    cut = len(lines) > 1 or len(line) > _COMMAND_CHARS
    return f"{line[: _COMMAND_CHARS - 2]} …" if cut else line
