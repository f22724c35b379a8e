"""Between records and rows. The column order of a table is the field order of its record."""

from __future__ import annotations

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
    Run,
    Session,
    Task,
    Trigger,
)
from qinglong.ledger.sqlite.statements import Row

_json = msgspec.json.Encoder(order="deterministic").encode
_INTENT = msgspec.json.Decoder(Intent)
_POLICY = msgspec.json.Decoder(Policy)
_DICT = msgspec.json.Decoder(dict[str, Any])
_TEXTS = msgspec.json.Decoder(dict[str, str])
RUN_CHANGES = Run.__struct_fields__.index("state")
ATTEMPT_CHANGES = Attempt.__struct_fields__.index("status")
LEASE_CHANGES = Lease.__struct_fields__.index("version")
CAPABILITIES = Session.__struct_fields__.index("capabilities")
_astuple = msgspec.structs.astuple


@lru_cache(maxsize=4096)
def _policy(raw: bytes) -> Policy:
    return _POLICY.decode(raw)


def run_of(row: Row) -> Run:
    """A Run from its row."""
    values = list(row)
    values[10] = _policy(row[10])
    values[11] = tuple(row[11].split("\n")) if row[11] else ()
    if row[23] is not None:
        values[23] = _INTENT.decode(row[23])
    return Run(*values)


def row_of_run(run: Run) -> Row:
    """The row of a Run."""
    values = list(_astuple(run))
    values[10] = _json(run.policy)
    values[11] = "\n".join(run.gates)
    if run.intent is not None:
        values[23] = _json(run.intent)
    return tuple(values)


def changes_of_run(run: Run) -> Row:
    """What an update of a Run stores."""
    values = list(_astuple(run)[RUN_CHANGES:])
    if run.intent is not None:
        values[23 - RUN_CHANGES] = _json(run.intent)
    return tuple(values)


def attempt_of(row: Row) -> Attempt:
    """An Attempt from its row."""
    return Attempt(*row)


def lease_of(row: Row) -> Lease:
    """A Lease from its row."""
    return Lease(*row)


def session_of(row: Row) -> Session:
    """A Session from its row."""
    values = list(row)
    values[CAPABILITIES] = _TEXTS.decode(values[CAPABILITIES])
    return Session(*values)


def row_of_session(session: Session) -> Row:
    """The row of a Session."""
    values = list(_astuple(session))
    values[CAPABILITIES] = _json(session.capabilities)
    return tuple(values)


def event_of(row: Row) -> Event:
    """An Event from its row."""
    return Event(row[0], row[1], row[2], row[3], _DICT.decode(row[4]))


def row_of_event(event: Event) -> Row:
    """The row of an Event."""
    return (event.run_id, event.version, event.at_ms, event.kind, _json(event.data))


def task_of(row: Row) -> Task:
    """A task head from its row."""
    return Task(*row)


def trigger_of(row: Row) -> Trigger:
    """A trigger from its row."""
    return Trigger(*row)


def evidence_of(row: Row) -> Evidence:
    """Recorded evidence from its row."""
    return Evidence(*row)


def occurrence_of(row: Row) -> Occurrence:
    """An occurrence from its row."""
    return Occurrence(*row)
