"""Fields that say how often, how long and beside what a task may run."""

from __future__ import annotations

import signal
from typing import Final, Literal

from qinglong import limits
from qinglong.domain.definitions import Backoff, Cause, Missed, OnLeaseLoss, Overlap, Retry, Safety, Stop
from qinglong.wire.jobfile import nodes, values
from qinglong.wire.jobfile.building import build
from qinglong.wire.jobfile.problems import quoted, suggestion
from qinglong.wire.jobfile.reading import Cursor, Field, items, record, require
from qinglong.wire.jobfile.scope import Scope

CAUSES: Final[tuple[Cause, ...]] = ("failed", "timed_out", "lost")
SAFETIES: Final[tuple[Safety, ...]] = ("idempotent", "deduplicated")
_FREEZING: Final = frozenset(("SIGSTOP", "SIGTSTP", "SIGTTIN", "SIGTTOU"))


def time_limit(at: Cursor, _scope: Scope) -> int | None:
    """A duration, or ``none`` to lift a limit that the defaults set."""
    if isinstance(at.node, nodes.Scalar) and at.node.text == "none":
        return None
    return values.duration(at)


def safety(at: Cursor, _scope: Scope) -> Safety:
    """May the task run again although an earlier try might have had effects?"""
    return values.choice(at, SAFETIES)


def _count(most: int) -> Field:
    return Field(lambda at, _scope: values.integer(at, 1, most), "3")


def _max_attempts(at: Cursor, _scope: Scope) -> int:
    return values.integer(at, 1, limits.MAX_ATTEMPTS)


def _when(at: Cursor, _scope: Scope) -> tuple[Cause, ...]:
    causes: list[Cause] = []
    for item in items(at, len(CAUSES)):
        cause = values.choice(item, CAUSES)
        if cause in causes:
            item.problem("repeated", f"{cause} stands twice in the list", "keep one of the two")
        causes.append(cause)
    if isinstance(at.node, nodes.Sequence) and not at.node.items:
        at.problem("no_value", "names no cause to retry after", "write when: [failed], or remove retry")
    return tuple(causes)


def _initial(at: Cursor, _scope: Scope) -> int:
    return values.duration(at, limits.BACKOFF_FLOOR_MS, limits.BACKOFF_MAX_MS)


def _factor(at: Cursor, _scope: Scope) -> float:
    return values.number(at, 1, limits.BACKOFF_FACTOR_MAX)


def _backoff(at: Cursor, scope: Scope) -> Backoff:
    """Missing parts come from the defaults, widened so that ``initial`` never exceeds ``max``."""
    found = record(at, BACKOFF, scope, {"first": "initial", "delay": "initial", "multiplier": "factor"})
    standard = Backoff()
    initial = found["initial"].value if "initial" in found else None
    longest = found["max"].value if "max" in found else None
    if initial is not None and longest is not None and longest < initial:
        found["max"].at.problem(
            "backoff", "max is shorter than initial", "make max at least as long as initial"
        )
    return Backoff(
        initial_ms=initial or min(standard.initial_ms, longest or standard.initial_ms),
        factor=found["factor"].value if "factor" in found else standard.factor,
        max_ms=longest or max(standard.max_ms, initial or 0),
    )


BACKOFF: Final = {
    "initial": Field(_initial, "initial: 10s"),
    "factor": Field(_factor, "factor: 2"),
    "max": Field(_initial, "max: 10m"),
}
RETRY: Final = {
    "max_attempts": Field(_max_attempts, "max_attempts: 3"),
    "when": Field(_when, "when: [failed, timed_out]"),
    "backoff": Field(_backoff, "backoff: {initial: 10s, factor: 2, max: 10m}"),
}
_RETRY_HINTS: Final = {"attempts": "max_attempts", "on": "when", "delay": "write backoff: {initial: 10s}"}


def retry(at: Cursor, scope: Scope) -> Retry:
    """Whether and how another Attempt follows one that did not succeed."""
    found = record(at, RETRY, scope, _RETRY_HINTS)
    if not require(at, found, "max_attempts", "write max_attempts: 3 for three Attempts in total"):
        return Retry()
    return build(Retry, **{name: field.value for name, field in found.items()})


def lost_item(at: Cursor) -> Cursor | None:
    """Where a retry's ``when`` says ``lost``."""
    if not isinstance(at.node, nodes.Mapping) or "when" not in at.node.entries:
        return None
    key, when = at.node.entries["when"]
    for item in items(at.under(key, "when", when), len(CAUSES)):
        if isinstance(item.node, nodes.Scalar) and item.node.text == "lost":
            return item
    return None


OVERLAPS: Final[tuple[Literal["skip", "replace", "allow"], ...]] = ("skip", "replace", "allow")
OVERLAP: Final = {"queue": _count(limits.OVERLAP_QUEUE)}
MISSES: Final[tuple[Literal["latest", "skip"], ...]] = ("latest", "skip")
MISSED: Final = {"all": _count(limits.MISSED_ALL)}


def overlap(at: Cursor, scope: Scope) -> Overlap:
    """What happens when a Run is due while an older one of the task is not final."""
    if isinstance(at.node, nodes.Mapping):
        found = record(at, OVERLAP, scope, {})
        if require(at, found, "queue", "write {queue: 3}"):
            return Overlap("queue", found["queue"].value)
        return Overlap()
    return Overlap(values.choice(at, OVERLAPS, forms="{queue: 3}"))


def missed(at: Cursor, scope: Scope) -> Missed:
    """What happens with occurrences that passed while nobody could admit them."""
    if isinstance(at.node, nodes.Mapping):
        found = record(at, MISSED, scope, {})
        return Missed("all", found["all"].value) if require(at, found, "all", "write {all: 50}") else Missed()
    return Missed(values.choice(at, MISSES, forms="{all: 50}"))


def _after(at: Cursor, _scope: Scope) -> int:
    return values.duration(at)


ON_LEASE_LOSS: Final = {"stop_after": Field(_after, "stop_after: 2m")}


def on_lease_loss(at: Cursor, scope: Scope) -> OnLeaseLoss:
    """What a worker that lost its connection does with the running command."""
    if isinstance(at.node, nodes.Mapping):
        found = record(at, ON_LEASE_LOSS, scope, {})
        if require(at, found, "stop_after", "write {stop_after: 2m}"):
            return OnLeaseLoss("stop_after", found["stop_after"].value)
        return OnLeaseLoss()
    values.choice(at, ("keep",), forms="{stop_after: 2m}")
    return OnLeaseLoss()


def _signal(at: Cursor, _scope: Scope) -> str:
    """A signal that a program can answer by ending itself, as ``SIGTERM``."""
    written = values.text(at, least=1)
    full = written.upper() if written.upper().startswith("SIG") else f"SIG{written.upper()}"
    known = signal.Signals.__members__
    if full == "SIGKILL":
        remedy = "write a short grace instead: {grace: 1s}"
        at.problem("signal", "SIGKILL always comes by itself after the grace", remedy)
    elif full in _FREEZING:
        at.problem(
            "signal", f"{full} freezes a program instead of ending it", "write SIGTERM, SIGINT or SIGQUIT"
        )
    elif full not in known:
        at.problem("signal", f"there is no signal {quoted(written)}", _signal_meant(written, full))
    return full


def _signal_meant(written: str, full: str) -> str:
    names = {str(number.value): name for name, number in signal.Signals.__members__.items()}
    if names.get(written, "SIGKILL") != "SIGKILL":
        return f"write {names[written]}"
    close = "" if written.isdigit() else suggestion(full, tuple(names.values()))
    return f"did you mean {close}?" if close else "write a name such as SIGTERM, SIGINT or SIGQUIT"


def _grace(at: Cursor, _scope: Scope) -> int:
    return values.duration(at, most_ms=limits.GRACE_MAX_MS)


STOP: Final = {"signal": Field(_signal, "signal: SIGTERM"), "grace": Field(_grace, "grace: 30s")}


def stop(at: Cursor, scope: Scope) -> Stop:
    """How a running command is asked to end."""
    found = record(at, STOP, scope, {"timeout": "grace"})
    standard = Stop()
    return Stop(
        signal=found["signal"].value if "signal" in found else standard.signal,
        grace_ms=found["grace"].value if "grace" in found else standard.grace_ms,
    )


def concurrency(at: Cursor, scope: Scope) -> str:
    """The name of a concurrency group that the file set defines."""
    group = values.text(at, least=1)
    if not group or group in scope.groups:
        return group
    close = "" if at.problems.many else suggestion(group, tuple(scope.groups))
    remedy = f"did you mean {close}?" if close else "define it: concurrency_groups: {name: 1}"
    at.problem("unknown_group", f"there is no concurrency group {quoted(group)} in these files", remedy)
    return group
