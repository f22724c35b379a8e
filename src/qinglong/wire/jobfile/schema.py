"""The published JSON Schema (2020-12) of the job file, for editors; ``load`` checks more than it can say.

``python -m qinglong.wire.jobfile.schema > docs/job-file.schema.json`` writes it anew.
"""

from __future__ import annotations

import json
import sys
from typing import Any, Final

from qinglong import limits
from qinglong.domain import durations
from qinglong.wire.jobfile import policy
from qinglong.wire.jobfile.document import GROUP_SIZE, VERSION
from qinglong.wire.jobfile.problems import NAME_PATTERN
from qinglong.wire.jobfile.surroundings import ENV_PATTERN, OWN_PREFIX, SHELL_OWNED
from qinglong.wire.jobfile.task import SHARED
from qinglong.wire.jobfile.times import MOMENT_PATTERN
from qinglong.wire.jobfile.values import TEXT_BYTES

Schema = dict[str, Any]

_NAME: Final = {"type": "string", "pattern": NAME_PATTERN}
_TEXT: Final = {"type": ["string", "number", "boolean"], "maxLength": TEXT_BYTES}
"""Numbers and booleans too: the reader takes every value as the text that was written."""
_FILLED: Final = {"type": ["string", "number", "boolean"], "minLength": 1, "maxLength": TEXT_BYTES}
_DURATION: Final = {"type": "string", "pattern": durations.PATTERN}
_TIME_LIMIT: Final = {"anyOf": [_DURATION, {"const": "none"}]}
_TEXTS: Final = {"type": "array", "items": _TEXT}


def schema() -> Schema:
    """The schema of one job file."""
    file = {
        "version": {"const": VERSION},
        "project": _NAME,
        "timezone": {"type": "string", "minLength": 1},
        "concurrency_groups": _named(_NAME, _count(GROUP_SIZE), limits.TASKS_PER_SET),
        "defaults": {"$ref": "#/$defs/defaults"},
        "tasks": _named(_NAME, {"$ref": "#/$defs/task"}, limits.TASKS_PER_SET),
    }
    shared = _policy() | _surroundings()
    defaults = {name: shared[name] for name in SHARED}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"urn:qinglong:job-file:{VERSION}",
        "title": "QingLong job file",
        **_record(file, "version", "tasks"),
        "$defs": {
            "defaults": _record(defaults),
            "task": _record(_when() | defaults | {"notes": _TEXT}, "run"),
            "trigger": _trigger(),
            "missed": _or_form(policy.MISSES, "all", _count(limits.MISSED_ALL)),
        },
    }


def text() -> str:
    """The published file."""
    return json.dumps(schema(), indent=2, ensure_ascii=False) + "\n"


def _record(properties: Schema, *required: str) -> Schema:
    """A mapping with fixed keys; those that begin with ``x-`` are the author's own."""
    made: Schema = {"type": "object", "properties": properties, "patternProperties": {"^x-": True}}
    if required:
        made["required"] = list(required)
    return {**made, "additionalProperties": False}


def _named(names: Schema, values: Schema, most: int) -> Schema:
    """A mapping whose keys are the author's."""
    return {
        "type": "object",
        "propertyNames": names,
        "additionalProperties": values,
        "maxProperties": most,
    }


def _count(most: int) -> Schema:
    return {"type": "integer", "minimum": 1, "maximum": most}


def _or_form(words: tuple[str, ...], key: str, value: Schema) -> Schema:
    """One of some words, or a mapping with one key."""
    return {"anyOf": [{"enum": list(words)}, _record({key: value}, key)]}


def _when() -> Schema:
    script = _record({"script": _FILLED, "args": _TEXTS}, "script")
    argv = {"type": "array", "items": _TEXT, "minItems": 1}
    triggers = {"type": "array", "items": {"$ref": "#/$defs/trigger"}, "maxItems": limits.TRIGGERS_PER_TASK}
    return {
        "run": {"anyOf": [_FILLED, argv, script]},
        "schedule": {"type": "string", "minLength": 1},
        "triggers": triggers,
    }


def _trigger() -> Schema:
    fields = {
        "id": _NAME,
        "cron": {"type": "string", "minLength": 1},
        "every": _DURATION,
        "at": {"type": "string", "pattern": MOMENT_PATTERN},
        "boot": {"const": True},
        "timezone": {"type": "string", "minLength": 1},
        "missed": {"$ref": "#/$defs/missed"},
    }
    return {
        **_record(fields, "id"),
        "oneOf": [{"required": [kind]} for kind in ("cron", "every", "at", "boot")],
    }


def _policy() -> Schema:
    factor = {"type": "number", "minimum": 1, "maximum": limits.BACKOFF_FACTOR_MAX}
    when = {
        "type": "array",
        "items": {"enum": list(policy.CAUSES)},
        "minItems": 1,
        "uniqueItems": True,
    }
    retry = {
        "max_attempts": _count(limits.MAX_ATTEMPTS),
        "when": when,
        "backoff": _record({"initial": _DURATION, "factor": factor, "max": _DURATION}),
    }
    return {
        "timeout": _TIME_LIMIT,
        "start_within": _TIME_LIMIT,
        "deadline": _TIME_LIMIT,
        "safety": {"enum": list(policy.SAFETIES)},
        "retry": _record(retry, "max_attempts"),
        "overlap": _or_form(policy.OVERLAPS, "queue", _count(limits.OVERLAP_QUEUE)),
        "missed": {"$ref": "#/$defs/missed"},
        "on_lease_loss": _or_form(("keep",), "stop_after", _DURATION),
        "stop": _record({"signal": _FILLED, "grace": _DURATION}),
        "concurrency": _NAME,
    }


def _surroundings() -> Schema:
    owned = "|".join(SHELL_OWNED)
    variable = {
        "pattern": ENV_PATTERN,
        "maxLength": limits.NAME_CHARS,
        "not": {"pattern": f"^{OWN_PREFIX}|^({owned})$"},
    }
    accepted = {"anyOf": [_FILLED, {"type": "array", "items": _FILLED, "minItems": 1}]}
    accepted = _named(_NAME, accepted, limits.LABELS_PER_TASK)
    return {
        "shell": {"enum": ["sh", "bash"]},
        "cwd": _FILLED,
        "user": _FILLED,
        "env": _named(variable, _TEXT, limits.ENV_PER_TASK),
        "env_file": {"anyOf": [_FILLED, {"type": "array", "items": _FILLED}]},
        "secrets": _named(variable, _record({"file": _FILLED}, "file"), limits.ENV_PER_TASK),
        "placement": _record({"required": accepted, "preferred": accepted}),
        "labels": _named(_NAME, _TEXT, limits.LABELS_PER_TASK),
    }


if __name__ == "__main__":
    sys.stdout.write(text())
