"""A silent worker: since when, which evidence was asked, what would resolve it, and what the policy says then."""

from __future__ import annotations

from typing import Protocol

from qinglong.domain import story_words as words
from qinglong.domain.records import Attempt, Event, Evidence, Lease, Run
from qinglong.domain.retrying import verdict
from qinglong.domain.story_words import bracketed, clean, since, until


class View(Protocol):
    """What a story needs of a Run; the ledger's ``RunView`` is one."""

    @property
    def run(self) -> Run: ...
    @property
    def attempts(self) -> tuple[Attempt, ...]: ...
    @property
    def lease(self) -> Lease | None: ...
    @property
    def events(self) -> tuple[Event, ...]: ...
    @property
    def evidence(self) -> tuple[Evidence, ...]: ...
    @property
    def late(self) -> int: ...
    @property
    def waits_for(self) -> tuple[str, ...]: ...


def newest(view: View) -> Attempt | None:
    """Its newest Attempt, if the view has any."""
    return view.attempts[-1] if view.attempts else None


def unreachable(view: View, now_ms: int) -> list[str]:
    """Which evidence was asked, what came back, what would resolve it, and what follows; nothing if it answers."""
    run = view.run
    if run.unreachable_ms is None:
        return []
    attempt = newest(view)
    worker = clean((attempt.worker if attempt else None) or "(unknown)")
    told = [
        f"It is unreachable since {since(run.unreachable_ms, now_ms)}: worker {worker} is silent, which is no"
        " evidence that the job is dead. It keeps its places at its limits."
    ]
    told += _evidence(view, now_ms)
    if view.lease is not None and view.lease.judge_ms > now_ms:
        told.append(
            f"It is looked at again at {until(view.lease.judge_ms, now_ms)}, or as soon as evidence comes."
        )
    told.append(
        "It is resolved when the worker answers again or reports the end, or when evidence shows that its process"
        " tree is gone or that its machine has booted since."
    )
    return [*told, _if_lost(run)]


def _evidence(view: View, now_ms: int) -> list[str]:
    lease = view.lease
    told = []
    for found in view.evidence:
        if found.attempt != view.run.attempt:
            continue
        void = lease is not None and found.at_ms < lease.reported_ms
        detail = bracketed(
            words.proof(found.proof), clean(found.detail), "void: a newer report came" if void else ""
        )
        answer = found.answer.replace("_", " ")
        at = since(found.at_ms, now_ms)
        told.append(f"Asked: {words.provider(found.provider)}, which answered “{answer}”{detail} at {at}.")
    return told or ["Nobody who was asked has answered what became of it."]


def _if_lost(run: Run) -> str:
    why = verdict(run, "lost")
    if run.intent is not None:
        state = "cancelled" if run.intent.kind == "cancel" else "timed out"
        return f"If it proves to be lost, it is {state}, because that was asked before."
    if why:
        because = words.why_not_under(why, run.policy, "lost")
        return f"If it proves to be lost, it fails and is not run again: {because}."
    return f"If it proves to be lost, it is run again: the task declares `safety: {run.policy.safety}`."
