"""Publishing a file set: definitions change in one transaction, then what follows from it (design section 11)."""

from __future__ import annotations

from functools import partial

from qinglong.control.deps import Deps
from qinglong.control.steps.trigger import TriggerStep
from qinglong.domain import ending
from qinglong.domain.admission import promote
from qinglong.domain.change import Change, Draft
from qinglong.domain.definitions import FileSet
from qinglong.domain.publishing import Published, publish
from qinglong.domain.records import Trigger
from qinglong.errors import Conflict
from qinglong.ledger.port import Keys


class Publisher:
    """Puts file sets in force."""

    def __init__(self, deps: Deps, triggers: TriggerStep) -> None:
        self._deps = deps
        self._triggers = triggers

    async def publish(self, files: FileSet, source: str, boot_id: str, *, admits: bool = True) -> Published:
        """Apply the file set as the whole of ``source``.

        Occurrences that are due under the old revisions are settled first. Without ``admits`` (the door is shut,
        I7) they are recorded as superseded, and boot triggers wait for :meth:`boot`. Raises ``Conflict`` when another
        source owns one of the names; nothing is changed then.
        """
        while admits and await self._triggers.step():
            pass
        done = await self._deps.ledger.transact(
            Keys(project=files.project), lambda draft: publish(draft, files, source, self._deps.ids.new)
        )
        if done.clashes:
            name, owner = done.clashes[0]
            raise Conflict(
                "name_clash",
                f"task {name} belongs to {owner}; {len(done.clashes)} name(s) clash",
                remedy="rename it, or remove it there first",
            )
        await self._cancel_removed()
        if admits:
            await self.boot(files.project, boot_id)
        return done

    async def boot(self, project: str, boot_id: str) -> int:
        """Admit the project's boot triggers that have not fired in this boot of the machine; how many did."""
        return await self._triggers.boot(await self._boot_triggers(project), boot_id)

    async def _cancel_removed(self) -> None:
        """Removing a task cancels its waiting Runs, never a running one. Also heals a crash in between."""
        while True:
            page = await self._deps.ledger.unstarted_of_removed()
            cancelled = 0
            for run_id in page.ids:
                keys = Keys(runs=(run_id,), frees=True)
                cancelled += await self._deps.ledger.transact(keys, partial(_cancel, run_id))
            if not (page.more and cancelled):
                return

    async def _boot_triggers(self, project: str) -> tuple[Trigger, ...]:
        def decide(draft: Draft) -> tuple[Trigger, ...]:
            return tuple(trigger for trigger in draft.triggers.values() if trigger.next_ms is None)

        return await self._deps.ledger.transact(Keys(project=project), decide)


def _cancel(run_id: str, draft: Draft) -> bool:
    found = draft.get(run_id)
    if found is None or ending.started(found):
        return False
    change = ending.cancel(found, "definitions", "its task was removed", draft.now_ms)
    if not isinstance(change, Change):
        return False
    draft.apply(change)
    promote(draft)
    return True
