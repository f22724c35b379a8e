"""Where a Run stands at this moment: what it waits for, what would resolve it, which policy governs it."""

from __future__ import annotations

from qinglong.domain import story_words as words
from qinglong.domain.gates import WAITS, is_overlap, places
from qinglong.domain.records import Run
from qinglong.domain.retrying import verdict
from qinglong.domain.states import RUN_FINAL
from qinglong.domain.story_policy import not_retried, policy_of
from qinglong.domain.story_silence import View, newest, unreachable
from qinglong.domain.story_words import bracketed, clean, count, since, until
from qinglong.limits import RETURNS_MAX


def now(view: View, now_ms: int) -> tuple[str, ...]:
    """Sentences, most important first. ``now_ms`` is UTC; a Run that has ended is told without it."""
    run = view.run
    told = [_state(view, now_ms)]
    if run.state in RUN_FINAL:
        told += not_retried(run, view.attempts)
    else:
        told += _intent(run, now_ms)
        told += unreachable(view, now_ms)
        told += _limits(view, now_ms)
        told.append(policy_of(run))
    if view.late:
        told.append(
            f"{words.capital(count(view.late, 'report'))} came after authority had moved:"
            " kept as late evidence, without changing anything."
        )
    return tuple(told)


def _state(view: View, now_ms: int) -> str:
    run = view.run
    match run.state:
        case "created":
            return _held(view)
        case "queued":
            return _queued(run, now_ms)
        case "dispatching":
            return _dispatching(view, now_ms)
        case "running":
            return _running(view, now_ms)
        case "retry_wait":
            return _retry_wait(view, now_ms)
        case "lost":
            return _lost(view)
        case _:
            return _ended(run)


def _held(view: View) -> str:
    run = view.run
    others = ", ".join(words.short(other) for other in view.waits_for)
    key = next((key for key, kind in places(run) if kind == WAITS), "")
    if run.held_by == "overlap" or (key and is_overlap(key)):
        older = f"run {others} of the same task has" if others else "an older run of the same task has"
        return (
            f"It is held by the overlap limit of its task: {older} not ended. It goes on when that is a fact."
        )
    full = f"run {others} is in it" if others else ""
    return f"It is held because {words.gate(key)} is full{bracketed(full)}. It goes on when a place is free."


def _queued(run: Run, now_ms: int) -> str:
    if run.available_ms is None or run.available_ms <= now_ms:
        return f"It is queued: attempt {run.attempt} waits for a free slot of a worker."
    told = f"It is queued, and is not offered before {until(run.available_ms, now_ms)}."
    if not run.returns:
        return told
    back = f"{count(run.returns, 'delivery', 'deliveries')} came back unstarted"
    hint = "; no worker seems able to begin it" if run.returns >= RETURNS_MAX else ""
    return f"{told[:-1]}, because {back}{hint}."


def _dispatching(view: View, now_ms: int) -> str:
    attempt = newest(view)
    if attempt is None:
        return "It is being handed to a worker."
    worker = clean(attempt.worker or "(unknown)")
    if attempt.status != "claimed":
        began = "" if attempt.starting_ms is None else f" at {since(attempt.starting_ms, now_ms)}"
        return f"Attempt {attempt.number} passed the start barrier on worker {worker}{began}: its command may run."
    told = f"Attempt {attempt.number} was offered to worker {worker}, which has not begun it."
    if view.lease is None:
        return told
    if view.lease.expires_ms <= now_ms:
        return f"{told} Its lease has expired, so it is taken back and offered again."
    return (
        f"{told} If it does not begin it, it is offered again after {until(view.lease.expires_ms, now_ms)}."
    )


def _running(view: View, now_ms: int) -> str:
    attempt = newest(view)
    if attempt is None:
        return "It is running."
    began = attempt.running_ms if attempt.running_ms is not None else attempt.starting_ms
    where = clean(attempt.worker or "(unknown)")
    when = "" if began is None else since(began, now_ms)
    if view.run.unreachable_ms is None:
        return f"Attempt {attempt.number} is running on worker {where}{when and f' since {when}'}."
    begun = f"Attempt {attempt.number} was begun on worker {where}{when and f' at {when}'}"
    return f"{begun}; whether it runs is not known."


def _retry_wait(view: View, now_ms: int) -> str:
    run, attempt = view.run, newest(view)
    due = "" if run.available_ms is None else f" at {until(run.available_ms, now_ms)}"
    told = f"It waits for its backoff: attempt {run.attempt + 1} is due{due}."
    if attempt is None or attempt.ended_ms is None:
        return told
    if attempt.reason == "never_started":
        return f"{told} Attempt {attempt.number} provably never began, which uses no attempt."
    ended = attempt.status.replace("_", " ")
    return (
        f"{told} Attempt {attempt.number} {'was lost' if ended == 'lost' else ended}{_why(attempt.reason)}."
    )


def _why(reason: str) -> str:
    return bracketed("" if reason == "not_running" else clean(reason))


def _lost(view: View) -> str:
    run, attempt = view.run, newest(view)
    if attempt is not None and attempt.reason == "never_started":
        return "Its attempt was lost but provably never began: it is delivered again without any policy."
    why = verdict(run, "lost")
    if run.intent is not None:
        decided = "and because it was to end, it ends now"
    elif why:
        decided = f"and it will not run again: {words.why_not_under(why, run.policy, 'lost')}"
    else:
        decided = "and its policy allows another attempt"
    return f"Its attempt is lost: evidence showed that nothing of it runs, {decided}."


def _ended(run: Run) -> str:
    state = {"succeeded": "has succeeded", "failed": "has failed", "cancelled": "was cancelled"}.get(
        run.state, "has timed out"
    )
    reason = (
        ""
        if run.reason in {"cancel", "lost"} or run.reason.startswith(("lost_retry_", "stopped"))
        else run.reason
    )
    when = "" if run.finished_ms is None else f" at {words.moment(run.finished_ms)}"
    told = f"It {state}{when}{bracketed(clean(reason).replace('start_within', 'it had not started in time'))}"
    if run.intent is None or run.intent.kind != "cancel" or run.state != "cancelled":
        return f"{told}. A final run never changes."
    asked = words.actor(run.intent.by)
    why = bracketed("" if run.intent.reason == run.reason else clean(run.intent.reason))
    return f"{told}; {asked} had asked for it{why}. A final run never changes."


def _intent(run: Run, now_ms: int) -> list[str]:
    if run.intent is None:
        return []
    at = since(run.intent.at_ms, now_ms)
    waits = "it ends when its worker says so, or evidence shows that nothing of it runs"
    if run.intent.kind == "cancel":
        why = bracketed(clean(run.intent.reason))
        by = words.actor(run.intent.by)
        return [f"Its cancellation was asked by {by} at {at}{why} and is not confirmed yet: {waits}."]
    return [f"Its deadline passed at {at}; its worker was told to stop it: {waits}."]


def _limits(view: View, now_ms: int) -> list[str]:
    run, attempt = view.run, newest(view)
    told = []
    if run.barriers == 0 and run.start_by_ms is not None:
        told.append(f"Not started by {until(run.start_by_ms, now_ms)}, it is timed out.")
    live = run.state in {"dispatching", "running"} and attempt is not None
    if live and attempt is not None and attempt.timeout_at_ms is not None:
        told.append(f"Its worker stops it at {until(attempt.timeout_at_ms, now_ms)} (`timeout`).")
    if run.deadline_ms is not None and run.intent is None:
        told.append(f"The whole run has to end by {until(run.deadline_ms, now_ms)} (`deadline`).")
    return told
