"""The fields ``schedule`` and ``triggers``: when a task runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from qinglong.domain import cron
from qinglong.domain.definitions import Missed, TriggerSpec
from qinglong.errors import Invalid
from qinglong.limits import EVERY_MIN_MS, TRIGGERS_PER_TASK
from qinglong.wire.jobfile import nodes, policy, values
from qinglong.wire.jobfile.building import build
from qinglong.wire.jobfile.problems import one_of, quoted
from qinglong.wire.jobfile.reading import Cursor, Field, Found, items, later, record, require, unsupported
from qinglong.wire.jobfile.scope import Scope
from qinglong.wire.jobfile.times import moment, zone

KINDS: Final = ("cron", "every", "at", "boot")
_PLANNED: Final = ("after", "webhook")
_HINTS: Final = {
    "schedule": "cron",
    "interval": "every",
    "name": "id",
    "tz": "timezone",
    "zone": "timezone",
    "date": "at",
    "reboot": "boot",
}


def _id(at: Cursor, _scope: Scope) -> str:
    return values.name(at, values.text(at), "trigger")


def _every(at: Cursor, _scope: Scope) -> int:
    return values.duration(at, EVERY_MIN_MS)


def _boot(at: Cursor, _scope: Scope) -> bool:
    node = at.node
    if not isinstance(node, nodes.Scalar) or node.null:
        at.wrong_kind("true")
    elif not node.plain or node.text not in {"true", "True", "TRUE"}:
        message = f"boot takes only true, not {quoted(node.text)}"
        at.problem("choice", message, "write boot: true, or remove the trigger")
    return True


TRIGGER: Final = {
    "id": Field(_id, "id: nightly"),
    "cron": Field(later, 'cron: "0 3 * * *"'),
    "every": Field(_every, "every: 15m"),
    "at": Field(later, "at: 2027-01-31T09:00"),
    "boot": Field(_boot, "boot: true"),
    "timezone": Field(zone, "timezone: Europe/Berlin"),
    "missed": Field(policy.missed, "missed: skip"),
    "after": Field(unsupported, "after: {task: fetch}"),
    "webhook": Field(unsupported, "webhook: {}"),
}


def schedule(at: Cursor, scope: Scope, missed: Missed) -> TriggerSpec:
    """The short form: one cron trigger whose id is ``schedule``."""
    return build(
        TriggerSpec, id="schedule", kind="cron", expr=_cron(at, scope.zone), zone=scope.zone, missed=missed
    )


def triggers(at: Cursor, scope: Scope, missed: Missed) -> list[TriggerSpec]:
    """The long form; ``missed`` is the task's, for triggers without one."""
    specs: list[TriggerSpec] = []
    seen: dict[str, Cursor] = {}
    for item in items(at, TRIGGERS_PER_TASK):
        found = record(item, TRIGGER, scope, _HINTS)
        example = "write {id: nightly, …}: it keeps the trigger the same when you edit it"
        if require(item, found, "id", example):
            _unique(found["id"], seen)
        specs.append(_trigger(item, found, scope, missed))
    return specs


def _unique(identity: Found, seen: dict[str, Cursor]) -> None:
    first = seen.setdefault(identity.value, identity.at)
    if first is not identity.at:
        message = f"the trigger {identity.value[:40]!r} stands twice, first in line {first.node.place[0]}"
        identity.at.problem("duplicate_trigger", message, "give each trigger of the task an id of its own")


def _trigger(at: Cursor, found: dict[str, Found], scope: Scope, missed: Missed) -> TriggerSpec:
    kinds = [kind for kind in (*KINDS, *_PLANNED) if kind in found]
    given: dict[str, Any] = {"kind": kinds[0] if kinds else "", "missed": missed}
    given |= {name: found[name].value for name in ("id", "missed") if name in found}
    if len(kinds) != 1:
        _not_one_kind(at, kinds)
    elif given["kind"] in {"cron", "at"}:
        given |= _dated(found[kinds[0]].at, found, scope)
    elif "timezone" in found:
        message = f"a zone means nothing for {kinds[0]}"
        found["timezone"].at.problem("timezone_unused", message, "remove it", at_key=True)
    if "every" in found:
        given["every_ms"] = found["every"].value
    return build(TriggerSpec, **{"id": "", **given})


def _dated(at: Cursor, found: dict[str, Found], scope: Scope) -> dict[str, Any]:
    """The fields of a trigger whose moments a time zone decides."""
    zone_name = found["timezone"].value if "timezone" in found else scope.zone
    if at.field.endswith(".at"):
        return {"zone": zone_name, "at_ms": moment(at, zone_name)}
    return {"zone": zone_name, "expr": _cron(at, zone_name)}


def _not_one_kind(at: Cursor, kinds: Sequence[str]) -> None:
    if not isinstance(at.node, nodes.Mapping):
        return
    if kinds:
        message = f"a trigger has one kind, this has {' and '.join(kinds)}"
        at.problem("trigger_kind", message, "make it several triggers with ids of their own")
        return
    at.problem("trigger_kind", "the trigger does not say when", f"add one of {one_of(KINDS)}, as every: 15m")


def _cron(at: Cursor, zone_name: str) -> str:
    if isinstance(at.node, nodes.Mapping | nodes.Sequence) and not at.field.endswith(".cron"):
        at.problem(
            "wrong_kind", "schedule is one cron text", "for anything else use triggers: [{id: …, every: 15m}]"
        )
        return ""
    written = values.text(at, least=1)
    if not written:
        return ""
    try:
        cron.parse(written, zone_name)
    except Invalid as error:
        at.invalid(error)
    return written
