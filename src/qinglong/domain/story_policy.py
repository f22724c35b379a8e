"""The part of a story that says which policy governs a loss or a failure, and why nothing runs again."""

from __future__ import annotations

from qinglong.domain import story_words as words
from qinglong.domain.records import Attempt, Run
from qinglong.domain.retrying import verdict
from qinglong.domain.story_words import count, lasting

_NAMES = {"failed": "failures", "timed_out": "time-outs", "lost": "losses"}


def policy_of(run: Run) -> str:
    """The policy that was stored when the Run was admitted (D3), in one sentence."""
    retry, safety = run.policy.retry, run.policy.safety
    declared = f"`safety` is {safety}" if safety else "`safety` is not declared"
    if retry.max_attempts <= 1:
        return f"Its policy: {declared}; one attempt, nothing is retried."
    causes = " and ".join(_NAMES[cause] for cause in retry.when)
    pause = f"{lasting(retry.backoff.initial_ms)} to {lasting(retry.backoff.max_ms)}"
    return (
        f"Its policy: {declared}; {causes} are retried, up to {count(retry.max_attempts, 'attempt')} in total"
        f" ({run.barriers} used), after pauses of {pause}."
    )


def not_retried(run: Run, attempts: tuple[Attempt, ...]) -> list[str]:
    """Why a Run that ended badly does not run again; nothing for one that succeeded or was cancelled."""
    if run.state not in {"failed", "timed_out"} or run.intent is not None:
        return []
    newest = attempts[-1] if attempts else None
    if run.reason.startswith("lost_retry_"):
        return [
            f"It is not retried: {words.why_not_under(run.reason, run.policy, 'lost')}.",
            *_how_to_allow(run),
        ]
    if run.reason == "deadline" or newest is None:
        return ["It is not retried: the deadline is that of the whole run."] if newest else []
    why = verdict(run, run.state)
    return [f"It is not retried: {words.why_not_under(why, run.policy, run.state)}."] if why else []


def _how_to_allow(run: Run) -> list[str]:
    """What its owner can change for later Runs; this one keeps the policy it was admitted with."""
    if run.reason == "lost_retry_exhausted":
        return []
    missing = [] if run.policy.safety else ["`safety: idempotent` (or `deduplicated`)"]
    if "lost" not in run.policy.retry.when:
        missing.append("`lost` in `retry.when`")
    if run.policy.retry.max_attempts <= 1:
        missing.append("`retry.max_attempts` above 1")
    return [f"Where running it twice is harmless, later lost runs are run again with {', '.join(missing)}."]
