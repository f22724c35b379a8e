"""One task: its own fields, what the defaults add, and what the two must be together."""

from __future__ import annotations

from typing import Final

import msgspec

from qinglong.domain.definitions import Command, Missed, TaskSpec, TriggerSpec
from qinglong.limits import ENV_PER_TASK, LABELS_PER_TASK
from qinglong.wire.jobfile import command, nodes, policy, surroundings, triggers
from qinglong.wire.jobfile.building import build
from qinglong.wire.jobfile.reading import Cursor, Field, Found, later, record, require
from qinglong.wire.jobfile.scope import Scope

SHARED: Final = {
    "shell": Field(command.shell, "shell: bash"),
    "timeout": Field(policy.time_limit, "timeout: 2h"),
    "start_within": Field(policy.time_limit, "start_within: 30m"),
    "deadline": Field(policy.time_limit, "deadline: 6h"),
    "safety": Field(policy.safety, "safety: idempotent"),
    "retry": Field(policy.retry, "retry: {max_attempts: 3}"),
    "overlap": Field(policy.overlap, "overlap: skip"),
    "missed": Field(policy.missed, "missed: latest"),
    "on_lease_loss": Field(policy.on_lease_loss, "on_lease_loss: keep"),
    "stop": Field(policy.stop, "stop: {signal: SIGTERM, grace: 30s}"),
    "concurrency": Field(policy.concurrency, "concurrency: db"),
    "cwd": Field(surroundings.cwd, "cwd: /srv"),
    "user": Field(surroundings.user, "user: backup"),
    "env": Field(surroundings.env, "env: {DB: shop}"),
    "env_file": Field(surroundings.env_file, "env_file: [backup.env]"),
    "secrets": Field(surroundings.secrets, "secrets: {PGPASSWORD: {file: /etc/ql/pg}}"),
    "placement": Field(surroundings.placement, "placement: {required: {arch: amd64}}"),
    "labels": Field(surroundings.labels, "labels: {team: ops}"),
}
"""Fields that ``defaults`` may have too."""

TASK: Final = {
    "run": Field(command.run, 'run: pg_dump "$DB" | gzip > b.gz'),
    "schedule": Field(later, 'schedule: "0 3 * * *"'),
    "triggers": Field(later, "triggers: [{id: often, every: 15m}]"),
    **SHARED,
    "notes": Field(surroundings.notes, "notes: nightly dump"),
}

_HINTS: Final = {
    **dict.fromkeys(("command", "cmd", "exec", "shell_command", "program"), "write run: instead"),
    "script": "write run: {script: …}",
    "args": "write run: {script: …, args: […]}, or run: as a list",
    "cron": "write schedule: instead",
    "every": "write triggers: [{id: often, every: 15m}]",
    "at": "write triggers: [{id: once, at: 2027-01-31T09:00}]",
    "boot": "write triggers: [{id: boot, boot: true}]",
    "timezone": "set it for the file, or in a trigger: triggers: [{id: …, cron: …, timezone: …}]",
    **dict.fromkeys(("environment", "vars", "variables"), "write env: instead"),
    **dict.fromkeys(("workdir", "working_dir", "working_directory", "dir", "chdir"), "write cwd: instead"),
    **dict.fromkeys(("retries", "attempts", "max_attempts"), "write retry: {max_attempts: 3}"),
    **dict.fromkeys(("description", "comment", "name"), "write notes: instead; the task's key is its name"),
    "tags": "write labels: instead",
    **dict.fromkeys(("enabled", "disabled", "paused"), "use `ql pause TASK`; a file says what, not whether"),
    **dict.fromkeys(("depends_on", "needs", "after"), "steps that wait for each other are not supported yet"),
}
_MERGED: Final = {"env": ENV_PER_TASK, "secrets": ENV_PER_TASK, "labels": LABELS_PER_TASK}
_SPEC_NAMES: Final = {"timeout": "timeout_ms", "start_within": "start_within_ms", "deadline": "deadline_ms"}
_ELSEWHERE: Final = frozenset(("run", "shell", "schedule", "triggers"))


def read_defaults(at: Cursor, scope: Scope) -> dict[str, Found]:
    """What every task of the file gets unless it says otherwise."""
    never = "it belongs to each task: defaults cannot give it"
    found = record(at, SHARED, scope, dict.fromkeys(TASK.keys() - SHARED.keys(), never) | _HINTS)
    _check_names(found, found)
    return found


def read_task(at: Cursor, name: str, scope: Scope, defaults: dict[str, Found]) -> TaskSpec:
    """The task as it will be stored. Env, secrets and labels merge with the defaults, all else replaces."""
    own = record(at, TASK, scope, _HINTS)
    if not own and not isinstance(at.node, nodes.Mapping):
        return TaskSpec(name=name, command=Command("text"), cwd=scope.folder)
    require(at, own, "run", "say what to execute, as run: ./backup.sh")
    found = _with_defaults(own, defaults)
    _check_retry(found, own)
    _check_names(found, own)
    plain = {_SPEC_NAMES.get(key, key): field.value for key, field in found.items() if key not in _ELSEWHERE}
    plain.setdefault("cwd", scope.folder)
    missed = found["missed"].value if "missed" in found else Missed()
    given = {"command": _command(own, found), "triggers": _triggers(own, scope, missed), **plain}
    return build(TaskSpec, name=name, **given)


def _with_defaults(own: dict[str, Found], defaults: dict[str, Found]) -> dict[str, Found]:
    found = {**defaults, **own}
    for key, most in _MERGED.items():
        if key not in own or key not in defaults:
            continue
        merged = {**defaults[key].value, **own[key].value}
        found[key] = Found(own[key].at, merged)
        if len(merged) > most:
            message = f"has {len(merged)} entries with those of defaults, more than the {most} allowed"
            own[key].at.problem("too_many", message, f"keep at most {most}")
    for key, other in (("env", "secrets"), ("secrets", "env")):
        if key in own and other in found:
            # What the task itself says about a name replaces a default of the other kind.
            kept = {
                n: v for n, v in found[other].value.items() if n not in own[key].value or _says(own, other, n)
            }
            found[other] = Found(found[other].at, kept)
    return found


def _says(own: dict[str, Found], key: str, name: str) -> bool:
    return key in own and name in own[key].value


def _check_retry(found: dict[str, Found], own: dict[str, Found]) -> None:
    """A lost Attempt may run again only where its owner said that this is safe (I3)."""
    if "retry" in own and "lost" in own["retry"].value.when and "safety" not in found:
        refuse_lost(own["retry"].at, "safety: idempotent (or deduplicated)")


def refuse_lost(at: Cursor, remedy: str) -> None:
    """Note that a retry names ``lost`` although the task does not say that a second execution is safe."""
    place = policy.lost_item(at) or at
    message = (
        "a lost Attempt may already have had its effects, so `lost` needs a word that a second one is safe"
    )
    place.problem("unsafe_retry", message, f"add {remedy} if that is true, else remove lost")


def _check_names(found: dict[str, Found], own: dict[str, Found]) -> None:
    if "secrets" not in own or "env" not in found:
        return
    for name in found["env"].value.keys() & own["secrets"].value.keys():
        message = f"{name[:40]!r} is given by env and by secrets"
        own["secrets"].at.problem("env_name", message, "keep one of the two")


def _command(own: dict[str, Found], found: dict[str, Found]) -> Command:
    made: Command = own["run"].value if "run" in own else Command("text")
    if made.kind == "text" and "shell" in found:
        return msgspec.structs.replace(made, shell=found["shell"].value)
    if "shell" in own and "run" in own:
        message = "a shell means nothing here: run is not a text"
        remedy = f"remove it, or write run: [{own['shell'].value or 'sh'}, …]"
        own["shell"].at.problem("shell_unused", message, remedy, at_key=True)
    return made


def _triggers(own: dict[str, Found], scope: Scope, missed: Missed) -> tuple[TriggerSpec, ...]:
    specs: list[TriggerSpec] = []
    if "schedule" in own:
        specs.append(triggers.schedule(own["schedule"].at, scope, missed))
    if "triggers" in own:
        specs += triggers.triggers(own["triggers"].at, scope, missed)
    if "schedule" in own and "triggers" in own:
        remedy = 'move the schedule into the list as {id: schedule, cron: "…"}'
        own["schedule"].at.problem(
            "trigger_kind", "schedule and triggers exclude each other", remedy, at_key=True
        )
    return tuple(specs)
