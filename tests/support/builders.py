"""Records with everything that a test does not care about filled in."""

from __future__ import annotations

import hashlib
from typing import Any

from msgspec.structs import replace

from qinglong.domain import activation, definitions, dispatch
from qinglong.domain.admission import Admission, admit, gate_keys
from qinglong.domain.change import Aggregate, Change, Draft, Refusal
from qinglong.domain.definitions import Backoff, Command, Overlap, Retry, TaskSpec, TriggerSpec
from qinglong.domain.dispatch import Want
from qinglong.domain.fence import Fence
from qinglong.domain.records import Gate, Lease, Session, Task
from support.clock import T0

LEASE_MS = 60_000
TOKEN = "ab" * 32
DIGEST = hashlib.sha256(bytes.fromhex(TOKEN)).hexdigest()


def run_id(number: int = 1) -> str:
    """Ids that sort by their number."""
    return f"0199a1b2-0000-7000-8000-{number:012x}"


def spec(name: str = "backup", **fields: Any) -> TaskSpec:
    """A task that runs ``true``."""
    fields.setdefault("command", Command("text", text="true"))
    fields.setdefault("cwd", "/")
    return TaskSpec(name=name, **fields)


def cron(expr: str, name: str = "cron", zone: str = "UTC", **fields: Any) -> TriggerSpec:
    """A cron trigger."""
    return TriggerSpec(id=name, kind="cron", expr=expr, zone=zone, **fields)


def every(ms: int, name: str = "every", **fields: Any) -> TriggerSpec:
    """An interval trigger."""
    return TriggerSpec(id=name, kind="every", every_ms=ms, **fields)


def queue(size: int) -> Overlap:
    """``overlap: {queue: size}``."""
    return Overlap("queue", size)


def retry(most: int = 3, when: tuple[Any, ...] = ("failed", "timed_out", "lost"), **backoff: Any) -> Retry:
    """A retry policy."""
    return Retry(most, when, Backoff(**backoff))


def task(of: TaskSpec, task_id: str = "", **fields: Any) -> Task:
    """The head of a spec."""
    head = Task(task_id or f"task-{of.name}", "default", of.name, "test", 1, definitions.digest(of), T0)
    return replace(head, **fields)


def wish(of: TaskSpec, number: int = 1, **fields: Any) -> Admission:
    """A wish for a Run of a spec, by hand unless said otherwise."""
    fields.setdefault("cause", "manual")
    fields.setdefault("run_id", run_id(number))
    return Admission(task=task(of), spec=of, **fields)


def session(worker: str = "w1", **fields: Any) -> Session:
    """A live Session."""
    made = Session(worker, f"{worker}-s1", 1, 1, "online", 0, T0 + LEASE_MS, f"{worker}-j", 1, 4, "host", {})
    return replace(made, **fields)


def draft(
    of: TaskSpec | None = None, *found: Aggregate, now_ms: int = T0, gates: dict[str, Gate] | None = None
) -> Draft:
    """A Draft that holds these aggregates and the gates of a spec, with whoever stands there."""
    made = Draft(now_ms, {}, dict(gates or {}))
    keys = set() if of is None else set(gate_keys(task(of), of))
    for one in found:
        keys.update(one.run.gates)
    for key in keys - made.gates.keys():
        made.gates[key] = Gate(key, 1)
    for one in found:
        made._move_places(None, one.run)
        made.aggregates[one.run.run_id] = one
    made.loaded = dict(made.aggregates)
    made.freed.clear()
    return made


def admitted(of: TaskSpec | None = None, number: int = 1, now_ms: int = T0, **fields: Any) -> Aggregate:
    """A queued Run."""
    of = of or spec()
    answer = admit(draft(of, now_ms=now_ms), wish(of, number, **fields))
    return accepted(answer)


def want(number: int = 1) -> Want:
    """A wish for an offer, with the digest of :data:`TOKEN`."""
    return Want(f"offer-{number}", DIGEST)


def claimed(found: Aggregate | None = None, now_ms: int = T0, number: int = 1, **fields: Any) -> Aggregate:
    """A Run whose Attempt was granted to :func:`session`."""
    found = found or admitted()
    return accepted(dispatch.grant(found, session(**fields), want(number), 7, now_ms, LEASE_MS))


def started(found: Aggregate | None = None, now_ms: int = T0) -> Aggregate:
    """A Run past its start barrier."""
    found = found or claimed()
    return accepted(activation.starting(found, fence(found), now_ms, LEASE_MS))


def running(found: Aggregate | None = None, now_ms: int = T0) -> Aggregate:
    """A Run whose command runs."""
    found = found or started()
    return accepted(activation.running(found, fence(found), now_ms, LEASE_MS, {}))


def fence(found: Aggregate, **fields: Any) -> Fence:
    """What the holder of its Lease says about itself."""
    lease = found.lease
    assert lease is not None
    return replace(fence_of(lease), **fields)


def fence_of(lease: Lease) -> Fence:
    """The fence of a Lease that may have ended since."""
    return Fence(
        lease.worker,
        lease.run_id,
        lease.step,
        lease.attempt,
        lease.offer_id,
        lease.generation,
        lease.version,
        lease.token_digest,
    )


def accepted(answer: Change | Refusal) -> Aggregate:
    """What a Change made; fails on a Refusal."""
    assert isinstance(answer, Change), answer
    return answer.after


def refused(answer: object) -> str:
    """The code of a Refusal; fails on a Change."""
    assert isinstance(answer, Refusal), answer
    return answer.code


def told(answer: object) -> dict[str, Any]:
    """Kinds of the Events of a Change, with their data."""
    assert isinstance(answer, Change), answer
    return {event.kind: event.data for event in answer.events}
