"""Requests of remote workers as the ingress reads them: strict and bounded, unlike what is sent back.

A newer worker's unknown field is refused instead of ignored; a newer control plane's is ignored by the worker. So
control replicas are upgraded first. ``worker`` is a courtesy: who asks is known by the connection, and a request that
names somebody else is refused.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from qinglong.limits import CAPABILITIES, NAME_CHARS, POLL_MAX_MS, WORKER_NAME_CHARS, WORKER_RUNS_MAX
from qinglong.wire.worker import LogPart

_Id = Annotated[str, msgspec.Meta(min_length=1, max_length=64, pattern=r"^[A-Za-z0-9._-]+\Z")]
_Digest = Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{64}\Z")]
_Text = Annotated[str, msgspec.Meta(max_length=NAME_CHARS)]
_Name = Annotated[str, msgspec.Meta(max_length=WORKER_NAME_CHARS)]
_Count = Annotated[int, msgspec.Meta(ge=0, le=(1 << 53) - 1)]
_Runs = Annotated[int, msgspec.Meta(ge=0, le=WORKER_RUNS_MAX)]


class RegisterBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``POST /worker/v1/register``: ``wire.worker.Register``."""

    session_id: _Id
    journal_id: _Id
    journal_revision: _Count
    max_runs: Annotated[int, msgspec.Meta(ge=1, le=WORKER_RUNS_MAX)]
    host: Annotated[str, msgspec.Meta(max_length=255)] = ""
    capabilities: Annotated[dict[_Text, _Text], msgspec.Meta(max_length=CAPABILITIES)] = {}
    worker: _Name = ""


class WantBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``domain.dispatch.Want``."""

    offer_id: _Id
    token_digest: _Digest


class SyncBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``POST /worker/v1/sync``: ``wire.worker.Sync``. Reports are read one by one: a bad one spoils only itself."""

    session_id: _Id
    generation: _Count
    seq: _Count
    free_slots: _Runs = 0
    wants: Annotated[tuple[WantBody, ...], msgspec.Meta(max_length=WORKER_RUNS_MAX)] = ()
    reports: tuple[msgspec.Raw, ...] = ()
    wait_ms: Annotated[int, msgspec.Meta(ge=0, le=10 * POLL_MAX_MS)] = 0
    worker: _Name = ""


class TransitionBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``POST /worker/v1/transition``: the Session goes this way."""

    session_id: _Id
    generation: _Count
    state: Literal["draining", "offline"]
    worker: _Name = ""


class WakeBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``POST /worker/v1/wake``: the Session's syncs up to this number need not wait any longer."""

    session_id: _Id
    seq: _Count
    worker: _Name = ""


class LogHead(LogPart, frozen=True, forbid_unknown_fields=True):
    """The first line of ``POST /worker/v1/log``."""

    worker: _Name = ""


class Woken(msgspec.Struct, frozen=True):
    """Whether a waiting sync was found. If not, it may wait at another replica."""

    woken: bool


class Done(msgspec.Struct, frozen=True):
    """Nothing to say but that it is done."""
