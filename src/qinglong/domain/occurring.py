"""From a trigger's due occurrences to Runs and skipped rows: each occurrence is answered once (I6, I9)."""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from qinglong.domain import ending, schedule
from qinglong.domain.admission import Admission, admit, refusal, replaced
from qinglong.domain.change import Change, Draft, Refusal
from qinglong.domain.definitions import TaskSpec
from qinglong.domain.publishing import trigger_spec
from qinglong.domain.records import Occurrence, Task, Trigger


def advance(draft: Draft, trigger: Trigger, new_id: Callable[[], str]) -> bool:
    """Settle one trigger up to now, its cursor with it; whether more is due at once."""
    task, spec = draft.tasks[trigger.task_id]
    settled = schedule.settle(trigger_spec(trigger), trigger.cursor_ms, draft.now_ms, trigger.anchor_ms)
    for skip in settled.skips:
        draft.puts.append(
            Occurrence(
                trigger.trigger_id,
                str(skip.first_ms),
                skip.first_ms,
                skip.last_ms,
                skip.count,
                None,
                skip.reason,
            )
        )
    for moment in settled.due:
        occur(draft, trigger, task, spec, str(moment), moment, new_id)
    draft.puts.append(replace(trigger, cursor_ms=settled.cursor_ms, next_ms=settled.next_ms))
    return settled.more


def occur(
    draft: Draft,
    trigger: Trigger,
    task: Task,
    spec: TaskSpec,
    key: str,
    at_ms: int,
    new_id: Callable[[], str],
) -> None:
    """Answer one occurrence: a Run, or a skipped row with its reason."""
    wish = Admission(
        run_id=new_id(),
        task=task,
        spec=spec,
        cause=trigger_spec(trigger).kind,
        trigger_id=trigger.trigger_id,
        occurrence=key,
        scheduled_ms=at_ms,
    )
    answer = place(draft, wish)
    if isinstance(answer, Refusal):
        draft.puts.append(Occurrence(trigger.trigger_id, key, at_ms, at_ms, 1, None, answer.code))
        return
    draft.puts.append(Occurrence(trigger.trigger_id, key, at_ms, at_ms, 1, wish.run_id, ""))


def place(draft: Draft, wish: Admission) -> Change | Refusal:
    """Admit into the draft, ending older Runs first where the task says ``overlap: replace``.

    What is refused ends nothing.
    """
    older_runs = replaced(draft, wish)
    why_not = refusal(draft, wish) if older_runs else None
    if why_not is not None:
        return why_not
    for older in older_runs:
        ended = ending.cancel(older, "overlap", "replaced by a newer run", draft.now_ms)
        if isinstance(ended, Change):
            draft.apply(ended)
    answer = admit(draft, wish)
    if isinstance(answer, Change):
        draft.apply(answer)
    return answer
