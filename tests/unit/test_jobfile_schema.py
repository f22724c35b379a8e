"""The published schema is current, and says the same as the reader as far as it can."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from jobfile_support import in_task, read
from qinglong.wire.jobfile import schema
from qinglong.wire.jobfile.document import FILE
from qinglong.wire.jobfile.task import SHARED, TASK
from qinglong.wire.jobfile.triggers import TRIGGER

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted((ROOT / "examples").glob("*.yaml"))
SCHEMA = schema.schema()
KINDS = {
    "object": dict,
    "array": list,
    "string": str,
    "boolean": bool,
    "integer": int,
    "number": (int, float),
}
NOTES = {"$schema", "$id", "$defs", "title"}


def accepts(rule: Any, value: Any) -> bool:
    """The part of JSON Schema 2020-12 that the schema uses; an unknown keyword is an error."""
    if isinstance(rule, bool):
        return rule
    return all(_holds(word, rule, value) for word in rule.keys() - NOTES)


def _holds(word: str, rule: dict[str, Any], value: Any) -> bool:
    wanted = rule[word]
    match word:
        case "$ref":
            return accepts(SCHEMA["$defs"][wanted.removeprefix("#/$defs/")], value)
        case "type":
            kinds = [wanted] if isinstance(wanted, str) else wanted
            return any(_is(kind, value) for kind in kinds)
        case "anyOf":
            return any(accepts(one, value) for one in wanted)
        case "oneOf":
            return sum(accepts(one, value) for one in wanted) == 1
        case "not":
            return not accepts(wanted, value)
        case "const":
            return type(value) is type(wanted) and value == wanted
        case "enum":
            return value in wanted
    if isinstance(value, str):
        return _text_holds(word, wanted, value)
    if isinstance(value, dict):
        return _mapping_holds(word, wanted, rule, value)
    if isinstance(value, list):
        return _list_holds(word, wanted, value)
    return _number_holds(word, wanted, value)


def _is(kind: str, value: Any) -> bool:
    return isinstance(value, KINDS[kind]) and (kind == "boolean" or not isinstance(value, bool))


def _text_holds(word: str, wanted: Any, value: str) -> bool:
    checks = {
        "pattern": lambda: re.search(wanted, value) is not None,
        "minLength": lambda: len(value) >= wanted,
        "maxLength": lambda: len(value) <= wanted,
    }
    return checks[word]() if word in checks else _of_another_kind(word)


def _list_holds(word: str, wanted: Any, value: list[Any]) -> bool:
    checks = {
        "items": lambda: all(accepts(wanted, item) for item in value),
        "minItems": lambda: len(value) >= wanted,
        "maxItems": lambda: len(value) <= wanted,
        "uniqueItems": lambda: len(set(value)) == len(value),
    }
    return checks[word]() if word in checks else _of_another_kind(word)


def _mapping_holds(word: str, wanted: Any, rule: dict[str, Any], value: dict[str, Any]) -> bool:
    known = rule.get("properties", {})
    free = [key for key in value if any(re.search(p, key) for p in rule.get("patternProperties", {}))]
    checks = {
        "properties": lambda: all(accepts(wanted[key], value[key]) for key in value if key in wanted),
        "patternProperties": lambda: True,
        "additionalProperties": lambda: all(
            accepts(wanted, value[key]) for key in value if key not in known and key not in free
        ),
        "propertyNames": lambda: all(accepts(wanted, key) for key in value),
        "required": lambda: all(key in value for key in wanted),
        "maxProperties": lambda: len(value) <= wanted,
    }
    return checks[word]() if word in checks else _of_another_kind(word)


def _number_holds(word: str, wanted: Any, value: Any) -> bool:
    checks = {"minimum": lambda: value >= wanted, "maximum": lambda: value <= wanted}
    return checks[word]() if word in checks else _of_another_kind(word)


def _of_another_kind(word: str) -> bool:
    assert word in {
        *("pattern", "minLength", "maxLength", "items", "minItems", "maxItems", "uniqueItems", "minimum"),
        *(
            "properties",
            "patternProperties",
            "additionalProperties",
            "propertyNames",
            "required",
            "maxProperties",
        ),
        "maximum",
    }
    return True


def test_the_published_schema_is_current():
    """Write it anew with ``python -m qinglong.wire.jobfile.schema > docs/job-file.schema.json``."""
    assert (ROOT / "docs" / "job-file.schema.json").read_text() == schema.text()


def test_schema_and_reader_know_the_same_fields():
    definitions = SCHEMA["$defs"]
    assert SCHEMA["properties"].keys() == FILE.keys() - {"workflows"}
    assert definitions["task"]["properties"].keys() == TASK.keys()
    assert definitions["defaults"]["properties"].keys() == SHARED.keys()
    assert definitions["trigger"]["properties"].keys() == TRIGGER.keys() - {"after", "webhook"}


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_the_schema_accepts_the_examples(path):
    assert accepts(SCHEMA, yaml.safe_load(path.read_text()))


@pytest.mark.parametrize(
    "fields",
    [
        *(field.example for name, field in TASK.items() if name != "concurrency"),
        "env: {A: 0755, B: on, C: 1.5, D: ''}",
        "run: [a, 1, true]",
        "timeout: none",
        "overlap: {queue: 3}",
        "missed: {all: 50}",
        "on_lease_loss: {stop_after: 2m}",
        "env_file: a.env",
        "retry: {max_attempts: 2, when: [failed], backoff: {initial: 1s, factor: 1.5, max: 1m}}",
        "x-own: [1]",
        "triggers: [{id: a, at: '2027-01-31T09:00+01:00'}, {id: b, boot: true}]",
    ],
)
def test_schema_and_reader_accept(fields):
    text = in_task(fields)
    assert read(text)[1] == []
    assert accepts(SCHEMA, yaml.safe_load(text))


@pytest.mark.parametrize(
    "fields",
    [
        "timout: 5m",
        "timeout: 30",
        "timeout: 30 s",
        "safety: yes",
        "retry: 3",
        "retry: {}",
        "retry: {max_attempts: 0}",
        "retry: {max_attempts: 2, when: [crashed]}",
        "retry: {max_attempts: 2, backoff: {factor: 0}}",
        "overlap: queue",
        "overlap: {queue: 0}",
        "missed: {some: 1}",
        "env: {QL_X: a}",
        "env: {IFS: a}",
        "env: {1A: a}",
        "env: {A: [a]}",
        "env: {A: }",
        "labels: {a b: c}",
        "secrets: {A: b}",
        "run: []",
        "run: {args: []}",
        "triggers: [{every: 5m}]",
        "triggers: [{id: a}]",
        "triggers: [{id: a, every: 5m, boot: true}]",
        "triggers: [{id: a, at: tomorrow}]",
        "triggers: [{id: a, boot: false}]",
    ],
)
def test_schema_and_reader_refuse(fields):
    text = in_task(fields)
    assert read(text)[1] != []
    assert not accepts(SCHEMA, yaml.safe_load(text))
