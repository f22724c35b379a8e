"""Between records and rows. The column order of a table is the field order of its record.

What is written goes as one JSON parameter per statement, which SQL takes apart (``json_to_recordset``).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any

import msgspec

from qinglong.domain.records import (
    Attempt,
    Event,
    Evidence,
    Intent,
    Lease,
    Occurrence,
    Policy,
    RevisionRow,
    Run,
    Session,
    Task,
    Trigger,
)
from qinglong.ledger.postgres.statements import Row

_INTENT = msgspec.json.Decoder(Intent)
_POLICY = msgspec.json.Decoder(Policy)
_DICT = msgspec.json.Decoder(dict[str, Any])
_TEXTS = msgspec.json.Decoder(dict[str, str])
_encode = msgspec.json.Encoder(order="deterministic").encode
_NUL = re.compile(r"(?<!\\)((?:\\\\)*)\\u0000")
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_POLICY_AT = Run.__struct_fields__.index("policy")
_GATES_AT = Run.__struct_fields__.index("gates")
_INTENT_AT = Run.__struct_fields__.index("intent")
_CAPABILITIES_AT = Session.__struct_fields__.index("capabilities")
_SPEC_AT = Trigger.__struct_fields__.index("spec")
_RUN = len(Run.__struct_fields__)
_ATTEMPT = _RUN + len(Attempt.__struct_fields__)
_CHANGES = {
    Run: Run.__struct_fields__[Run.__struct_fields__.index("state") :],
    Attempt: Attempt.__struct_fields__[3:],
    Lease: Lease.__struct_fields__[4:],
}
_KEY = {
    Run: ("run_id",),
    Attempt: ("run_id", "step", "number"),
    Lease: ("run_id", "step", "attempt", "generation"),
}


def encoded(records: Sequence[Any]) -> str:
    """Records as the JSON array that a statement takes apart.

    PostgreSQL's text has no NUL character; it is kept as U+FFFD, as other unprintable input is.
    """
    text = _encode(records).decode()
    return _NUL.sub("\\1\ufffd", text) if "\\u0000" in text else text


def changes(record: Run | Attempt | Lease, **was: Any) -> dict[str, Any]:
    """The key and the changing fields of a record, and what it is compared with."""
    kind = type(record)
    return {name: getattr(record, name) for name in (*_KEY[kind], *_CHANGES[kind])} | was


def uuids(ids: Iterable[str]) -> list[str]:
    """Those that can be ids of Runs at all, each once; others stand for nothing in this ledger."""
    return [run_id for run_id in dict.fromkeys(ids) if _UUID.fullmatch(run_id)]


@lru_cache(maxsize=4096)
def _policy(raw: str) -> Policy:
    return _POLICY.decode(raw)


def run_of(row: Row) -> Run:
    """A Run from its row."""
    values = list(row)
    values[_POLICY_AT] = _policy(row[_POLICY_AT])
    values[_GATES_AT] = tuple(row[_GATES_AT])
    if row[_INTENT_AT] is not None:
        values[_INTENT_AT] = _INTENT.decode(row[_INTENT_AT])
    return Run(*values)


def loaded_of(row: Row) -> tuple[Run, Attempt | None, Lease | None]:
    """A Run with its newest Attempt and that one's Lease, from a joined row; the Lease's columns may be absent."""
    attempt = None if row[_RUN] is None else Attempt(*row[_RUN:_ATTEMPT])
    lease = None if len(row) == _ATTEMPT or row[_ATTEMPT] is None else Lease(*row[_ATTEMPT:])
    return run_of(row[:_RUN]), attempt, lease


def attempt_of(row: Row) -> Attempt:
    """An Attempt from its row."""
    return Attempt(*row)


def lease_of(row: Row) -> Lease:
    """A Lease from its row."""
    return Lease(*row)


def session_of(row: Row) -> Session:
    """A Session from its row."""
    values = list(row)
    values[_CAPABILITIES_AT] = _TEXTS.decode(values[_CAPABILITIES_AT])
    return Session(*values)


def event_of(row: Row) -> Event:
    """An Event from its row."""
    return Event(row[0], row[1], row[2], row[3], _DICT.decode(row[4]))


def task_of(row: Row) -> Task:
    """A task head from its row."""
    return Task(*row)


def trigger_of(row: Row) -> Trigger:
    """A trigger from its row."""
    values = list(row)
    values[_SPEC_AT] = row[_SPEC_AT].encode()
    return Trigger(*values)


def evidence_of(row: Row) -> Evidence:
    """Recorded evidence from its row."""
    return Evidence(*row)


def occurrence_of(row: Row) -> Occurrence:
    """An occurrence from its row."""
    return Occurrence(*row)


def with_text_spec(record: Trigger | RevisionRow) -> dict[str, Any]:
    """A definition's fields; its canonical JSON is text here, so that people can read it in the database."""
    return msgspec.structs.asdict(record) | {"spec": record.spec.decode()}
