"""After a restart: what became of every Attempt in the journal, and of every one the control plane asks about."""

from __future__ import annotations

from typing import Protocol

from qinglong.wire.worker import Claim, Question, Report
from qinglong.worker.execution import Execution, Shared
from qinglong.worker.host import AttemptKey
from qinglong.worker.journal import Entry


class Spawner(Shared, Protocol):
    """The agent, as far as reattaching needs it."""

    def spawn(self, entry: Entry, *, resumed: bool) -> Execution: ...

    def close_later(self, key: AttemptKey) -> None: ...


async def reattach(agent: Spawner, questions: tuple[Question, ...]) -> int:
    """Adopt what runs, report what ended, attest what never began; how many entries go on.

    A question without an entry was never accepted here: the journal precedes every effect, so it never began.
    """
    asked = {AttemptKey(ask.run_id, ask.step, ask.attempt): ask for ask in questions}
    resumed = 0
    for entry in agent.journal.open_entries():
        question = asked.pop(entry.key, None)
        if question is not None and question.offer_id != entry.offer_id:
            question = None
        if entry.identity is None:
            await _never_began(agent, entry, question)
            continue
        if question is not None:
            entry.generation, entry.version = question.generation, question.version
        agent.spawn(entry, resumed=True)
        resumed += 1
    for question in asked.values():
        agent.outbox.post(_attestation(agent, question))
    return resumed


async def _never_began(agent: Spawner, entry: Entry, question: Question | None) -> None:
    """No identity, no go byte. The entry is closed once the control plane has the answer."""
    if question is None:
        await agent.journal.close_entry(entry.key)
        return
    answer = agent.outbox.post(_attestation(agent, question))

    def closed(_: object) -> None:
        agent.close_later(entry.key)

    answer.add_done_callback(closed)


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
