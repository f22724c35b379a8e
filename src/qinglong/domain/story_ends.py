"""The sentences of what comes back, runs again, is cancelled, or is lost."""

from __future__ import annotations

from typing import Final

from qinglong.domain import story_words as words
from qinglong.domain.story_words import Data, attempt, bracketed, capital, count, number, said

_RETURNED: Final[dict[str, str]] = {
    "declined": "the worker declined it",
    "shutdown": "the worker is shutting down",
    "capacity_changed": "the worker has less room than it said",
    "lease_expired": "its lease expired before the start barrier",
}


def returned(data: Data, at: int) -> str:
    reason, pause = said(data, "reason"), number(data, "available_ms")
    why = _RETURNED.get(reason) or reason.replace("_", " ")
    told = f"{capital(attempt(data))} came back unstarted: {why}. It did nothing, and is queued again"
    told += (
        "." if pause is None else f", not before {words.moment(pause)} ({words.lasting(pause - at)} later)."
    )
    return told + _deliveries(data)


def _deliveries(data: Data) -> str:
    returns = number(data, "returns")
    if not returns:
        return ""
    told = f" {count(returns, 'delivery', 'deliveries')} came back so far"
    return f"{told}: no worker seems able to begin it." if data.get("undeliverable") else f"{told}."


_CAUSES: Final[dict[str, str]] = {"failed": "a failure", "timed_out": "a time-out", "lost": "a loss"}


def retry_scheduled(data: Data, at: int) -> str:
    due, cause = number(data, "next_attempt_ms"), said(data, "cause")
    when = "" if due is None else f" at {words.moment(due)}, after a pause of {words.lasting(due - at)}"
    if cause == "never_started":
        return f"The attempt provably never began, so it is delivered again{when}.{_deliveries(data)}"
    used, most = number(data, "barriers"), number(data, "max_attempts")
    tally = f"{used} of {most} attempts used" if used is not None and most is not None else ""
    return f"Its policy allows another attempt after {_CAUSES.get(cause, cause)}{bracketed(tally)}: it is due{when}."


def retried(data: Data, _at: int) -> str:
    return f"The pause is over: {attempt(data)} is queued."


def failed(data: Data, _at: int) -> str:
    return f"The lost run is not run again and has failed: {words.why_not(said(data, 'reason'))}."


def cancelled(data: Data, _at: int) -> str:
    reason, by = said(data, "reason"), said(data, "by")
    why = bracketed("" if reason == "cancel" else reason)
    if not data.get("unstarted"):
        return f"Nothing of it runs any more, and its cancellation had been asked for: it is cancelled{why}."
    return f"{capital(words.actor(by))} cancelled it{why}; no command of it was running."


def timed_out(data: Data, _at: int) -> str:
    if not data.get("unstarted"):
        return "Nothing of it runs any more, and its deadline had passed: it is timed out."
    if said(data, "reason") == "start_within":
        return "It had not started in the time that `start_within` gives: it is timed out."
    return "Its deadline passed while no command of it was running: it is timed out."


def lost(data: Data, _at: int) -> str:
    name = capital(attempt(data))
    detail = bracketed(words.proof(said(data, "proof")), said(data, "detail"))
    told = said(data, "provider")
    if said(data, "reason") == "never_started":
        shown = f", says {words.provider(told)}{detail}" if told else ""
        return f"{name} was lost, but it provably never began{shown}."
    at = number(data, "evidence_ms")
    when = "" if at is None else f" at {words.moment(at)}"
    return f"{name} is lost: {words.provider(told)} showed{when} that nothing of it runs{detail}."


def unreachable(data: Data, _at: int) -> str:
    answer = said(data, "answer")
    asked = "there is no evidence of what became of it"
    if answer:
        asked = (
            f"the answer to what became of it was {answer.replace('_', ' ')}{bracketed(said(data, 'detail'))}"
        )
    return (
        f"Worker {said(data, 'worker') or '(unknown)'} fell silent while it held {attempt(data)}, and {asked}. A"
        " silent worker is not a dead job: nothing is decided, nothing runs again."
    )


def cancel_requested(data: Data, _at: int) -> str:
    why = bracketed(said(data, "reason"))
    return (
        f"{capital(words.actor(said(data, 'by')))} asked to cancel it{why}. {capital(attempt(data))} is"
        " past its start barrier: its worker is told to stop it, and it ends when that is a fact."
    )


def deadline_requested(data: Data, _at: int) -> str:
    return f"Its deadline passed: the worker of {attempt(data)} is told to stop it."
