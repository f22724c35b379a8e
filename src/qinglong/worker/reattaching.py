"""After a restart: what became of every Attempt in the journal, and of every one the control plane asks about."""

from __future__ import annotations

from typing import Protocol

from qinglong.wire.worker import Claim, Question, Report
from qinglong.worker.execution import Execution, Shared
from qinglong.worker.journal import Entry


class Spawner(Shared, Protocol):
    """The agent, as far as reattaching needs it."""

    def spawn(self, entry: Entry, *, resumed: bool) -> Execution: ...


def reattach(agent: Spawner, questions: tuple[Question, ...]) -> int:
    """Adopt what runs, report what ended, attest what never began, send what is left of logs; how many entries go on.

    A question without an entry is about an Attempt whose go byte was never sent: the entry with the keeper's identity
    is durable before that byte, and is removed only after the end was acknowledged.
    """
    asked = {ask.offer_id: ask for ask in questions}
    count = 0
    for entry in agent.journal.open_entries():
        question = asked.pop(entry.offer_id, None)
        if question is None and entry.reported and agent.uploads is not None:
            agent.uploads.finish(entry)
            continue
        count += 1
        if question is not None:
            entry.generation, entry.version = question.generation, question.version
        agent.spawn(entry, resumed=True)
    for question in asked.values():
        agent.outbox.post(_attestation(agent, question))
    return count


def _attestation(agent: Shared, question: Question) -> Report:
    claim = Claim(
        question.run_id,
        question.step,
        question.attempt,
        question.offer_id,
        question.generation,
        question.version,
        agent.journal.token(question.offer_id),
    )
    return Report(
        "attest", claim, answer="never_began", proof="not_begun", detail="the journal shows no go byte"
    )
