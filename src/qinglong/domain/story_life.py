"""The sentences of a Run's way from admission to a worker's own word on how it ended."""

from __future__ import annotations

from typing import Final

from qinglong.domain import story_words as words
from qinglong.domain.story_words import Data, attempt, bracketed, capital, count, number, said


def admitted(data: Data, _at: int) -> str:
    task = f"task {said(data, 'task')} (revision {number(data, 'revision')})"
    told = f"{_cause(data, task)}{_standing(data)}"
    return f"{told} It may run beside an older run: that was asked for." if data.get("override") else told


def _cause(data: Data, task: str) -> str:
    due, late = number(data, "scheduled_ms"), number(data, "late_ms")
    when = f" at {words.moment(due)}" if due is not None else ""
    lateness = f", and admitted {words.lasting(late)} late" if late else ""
    match said(data, "cause"):
        case "manual":
            return f"{capital(words.actor(said(data, 'by')))} started {task} by hand."
        case "boot":
            return f"{capital(task)} was due because the machine booted{lateness}."
        case "every":
            return f"{capital(task)} was due{when}, as its interval says{lateness}."
        case "at":
            return f"{capital(task)} was due{when}, the one time it names{lateness}."
        case "cron":
            return f"{capital(task)} was due{when} by its schedule{lateness}."
        case other:
            return f"{capital(task)} was admitted{when}{bracketed(other)}{lateness}."


def _standing(data: Data) -> str:
    held_by = said(data, "held_by")
    if not held_by:
        return " It is queued."
    other = said(data, "waits_for")
    older = f"run {words.short(other)}" if other else "an older run"
    if held_by == "overlap":
        return f" It is held: {older} of the same task has not ended."
    return f" It is held: {words.gate(said(data, 'gate'))} is full{bracketed(other and f'{older} is in it')}."


def held(data: Data, _at: int) -> str:
    return f"The older run has ended; now it is held because {words.gate(said(data, 'gate'))} is full."


def released(data: Data, _at: int) -> str:
    return f"There is room at {words.gate(said(data, 'gate'))}: it is queued."


def offered(data: Data, _at: int) -> str:
    again = number(data, "generation") or 1
    delivery = f", delivery {again}" if again > 1 else ""
    return f"{capital(attempt(data))} was offered to worker {said(data, 'worker')}{delivery}."


def starting(data: Data, at: int) -> str:
    limit = number(data, "timeout_at_ms")
    told = f"{capital(attempt(data))} passed the start barrier: from here on only evidence says how it ended."
    if limit is None:
        return told
    return f"{told} Its timeout ends at {words.moment(limit)}, after {words.lasting(limit - at)}."


def running(data: Data, _at: int) -> str:
    pid = number(data, "pid")
    process = "" if pid is None else f" as process {pid}"
    digests = data.get("digests")
    read = ""
    if isinstance(digests, dict) and digests:
        files = ", ".join(
            f"{words.clean(str(path))} (sha256 {str(value)[:12]}…)" for path, value in digests.items()
        )
        read = f" It read {words.clean(files)}."
    return f"The command of {attempt(data)} runs{process}.{read}"


def reachable(data: Data, at: int) -> str:
    silent = number(data, "since_ms")
    lasted = "" if silent is None else f" after {words.lasting(at - silent)} of silence"
    return f"Worker {said(data, 'worker')} answers again{lasted}; the command was never given to another."


def adopted(data: Data, _at: int) -> str:
    return (
        f"A new process of worker {said(data, 'worker')} took {attempt(data)} over; the command itself was not"
        " started again."
    )


_ENDED: Final = {"timed_out": "timed out", "cancelled": "was cancelled", "failed": "failed"}
_STOPPED_BY: Final[dict[str, str]] = {
    "cancel": "its cancellation had been asked for",
    "deadline": "the run's deadline had passed",
    "timeout": "its timeout had passed",
    "shutdown": "the worker was shutting down",
    "lease_loss": "the worker had lost its lease (`on_lease_loss: stop_after`)",
}


def completed(data: Data, _at: int) -> str:
    name, status = capital(attempt(data)), said(data, "status")
    stopped = said(data, "stopped_by")
    told = f"{name} succeeded."
    if status != "succeeded":
        told = f"{name} {_ENDED.get(status, status)}{_ending(data, stopped)}."
    if stopped:
        told += f" The worker stopped it because {_STOPPED_BY.get(stopped, stopped)}."
    return told + _output(data) + _leftovers(data) + _under_intent(data, status)


def _ending(data: Data, stopped: str) -> str:
    code, signal, reason = number(data, "exit_code"), number(data, "signal"), said(data, "reason")
    if reason.startswith("start_failed: "):
        return f": its command could not be started ({reason.removeprefix('start_failed: ')})"
    if signal is not None:
        return f" with signal {signal}"
    if code is not None:
        return f" with exit code {code}"
    return "" if stopped or not reason else f": {reason}"


def _output(data: Data) -> str:
    size, dropped = number(data, "log_bytes"), number(data, "log_dropped")
    if size is None:
        return ""
    cut = f"; the log lacks {count(dropped, 'byte')} cut out of its middle" if dropped else ""
    return f" It wrote {count(size, 'byte')} of output{cut}."


def _leftovers(data: Data) -> str:
    left = number(data, "leftovers")
    return f" It had left {count(left, 'process', 'processes')} behind; they were stopped." if left else ""


def _under_intent(data: Data, status: str) -> str:
    intent = said(data, "final")
    if not intent or status in {"cancelled", "timed_out"}:
        return ""
    asked = "cancellation" if intent == "cancel" else "deadline"
    if status == "succeeded":
        return f" It ended well before its {asked} took effect, so the run has succeeded."
    state = "cancelled" if intent == "cancel" else "timed out"
    return f" Because of the run's {asked} it is {state}, and nothing is retried."
