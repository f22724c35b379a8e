"""Publishing: a file set becomes the project's definitions, changing only what is its own (design sections 3, 11).

An edit settles what was due under the old revision before this runs; whatever became due in between is recorded
as ``superseded``, and the new schedule starts strictly after.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import msgspec
from msgspec.structs import replace

from qinglong.domain import definitions, schedule
from qinglong.domain.change import Draft
from qinglong.domain.definitions import FileSet, TaskSpec, TriggerSpec
from qinglong.domain.gates import group_key
from qinglong.domain.records import Limit, Occurrence, Removed, RevisionRow, Task, Trigger
from qinglong.errors import Damaged, Invalid

_ENCODE = msgspec.json.Encoder(order="deterministic").encode
_DECODE = msgspec.json.Decoder(TriggerSpec).decode


class Published(msgspec.Struct, frozen=True):
    """What a publication did, by task name."""

    added: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    unchanged: int = 0
    clashes: tuple[tuple[str, str], ...] = ()
    """(task name, owning source): nothing was changed then."""


def trigger_spec(trigger: Trigger) -> TriggerSpec:
    """The stored spec of a trigger."""
    return _DECODE(trigger.spec)


def publish(draft: Draft, files: FileSet, source: str, new_id: Callable[[], str]) -> Published:
    """Put the new heads, revisions, triggers and limits into the draft; all of them, or none on a clash."""
    heads = {task.name: (task, spec) for task, spec in draft.tasks.values()}
    triggers: dict[str, list[Trigger]] = {}
    for trigger in draft.triggers.values():
        triggers.setdefault(trigger.task_id, []).append(trigger)
    clashes = tuple(
        (spec.name, heads[spec.name][0].source)
        for spec in files.tasks
        if spec.name in heads and _foreign(heads[spec.name][0], source)
    )
    if clashes:
        return Published(clashes=clashes)
    added: list[str] = []
    changed: list[str] = []
    for spec in files.tasks:
        before = heads.get(spec.name)
        task = _head(draft, files.project, spec, source, before[0] if before else None, new_id)
        if task is None:
            continue
        (changed if before and before[0].removed_ms is None else added).append(spec.name)
        _triggers(draft, task, spec, triggers.get(task.task_id, []), new_id)
    kept = {spec.name for spec in files.tasks}
    removed = [
        task
        for task, _ in draft.tasks.values()
        if task.source == source and task.removed_ms is None and task.name not in kept
    ]
    for task in removed:
        draft.puts.append(replace(task, removed_ms=draft.now_ms))
        for trigger in triggers.get(task.task_id, []):
            _remove(draft, trigger)
    for group, capacity in sorted(files.concurrency_groups.items()):
        draft.puts.append(Limit(group_key(files.project, group), capacity))
    return Published(
        tuple(added),
        tuple(changed),
        tuple(task.name for task in removed),
        len(files.tasks) - len(added) - len(changed),
    )


def _foreign(task: Task, source: str) -> bool:
    return task.removed_ms is None and task.source != source


def _head(
    draft: Draft,
    project: str,
    spec: TaskSpec,
    source: str,
    before: Task | None,
    new_id: Callable[[], str],
) -> Task | None:
    """The stored head of a new or changed task; ``None`` where nothing changed."""
    digest = definitions.digest(spec)
    if before is None:
        task = Task(new_id(), project, spec.name, source, 1, digest, draft.now_ms)
    elif before.digest == digest and before.removed_ms is None:
        return None
    else:
        task = replace(before, source=source, revision=before.revision + 1, digest=digest, removed_ms=None)
    draft.puts.append(task)
    draft.puts.append(
        RevisionRow(task.task_id, task.revision, digest, definitions.encode(spec), draft.now_ms)
    )
    return task


def _triggers(
    draft: Draft, task: Task, spec: TaskSpec, before: list[Trigger], new_id: Callable[[], str]
) -> None:
    old = {trigger.name: trigger for trigger in before}
    for wanted in spec.triggers:
        known = old.pop(wanted.id, None)
        raw = _ENCODE(wanted)
        if known is not None and known.spec == raw:
            continue
        if known is not None:
            _supersede(draft, known)
        anchor = draft.now_ms if known is None or _interval_changed(known, wanted) else known.anchor_ms
        # A clock that stepped back must not open what was settled before (I6).
        cursor = draft.now_ms if known is None else max(known.cursor_ms, draft.now_ms)
        draft.puts.append(
            Trigger(
                trigger_id=new_id() if known is None else known.trigger_id,
                task_id=task.task_id,
                name=wanted.id,
                spec=raw,
                anchor_ms=anchor,
                cursor_ms=cursor,
                next_ms=schedule.first_after(wanted, cursor, anchor),
            )
        )
    for trigger in old.values():
        _remove(draft, trigger)


def _remove(draft: Draft, trigger: Trigger) -> None:
    _supersede(draft, trigger)
    draft.puts.append(Removed(trigger.trigger_id))


def _interval_changed(known: Trigger, wanted: TriggerSpec) -> bool:
    spec = trigger_spec(known)
    return spec.kind != wanted.kind or spec.every_ms != wanted.every_ms


def _supersede(draft: Draft, known: Trigger) -> None:
    """Occurrences of the old revision that nobody settled leave a row (I9).

    A schedule that is no longer accepted cannot be counted, and must not stop the edit that mends it: it owed one
    at least.
    """
    if known.next_ms is None or known.next_ms > draft.now_ms:
        return
    last, count = known.next_ms, 1
    with contextlib.suppress(Invalid, Damaged):
        owed = schedule.supersede(trigger_spec(known), known.cursor_ms, draft.now_ms, known.anchor_ms)
        last = max((*owed.due, *(skip.last_ms for skip in owed.skips)), default=last)
        count = len(owed.due) + sum(skip.count for skip in owed.skips)
    draft.puts.append(
        Occurrence(
            known.trigger_id, str(known.next_ms), known.next_ms, last, max(count, 1), None, "superseded"
        )
    )
