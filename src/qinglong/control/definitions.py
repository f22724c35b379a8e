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

    async def publish(self, files: FileSet, source: str, boot_id: str) -> Published:
        """Apply the file set as the whole of ``source``.

        Occurrences that are due under the old revisions are settled first. Raises ``Conflict`` when another source
        owns one of the names; nothing is changed then.
        """
        while await self._triggers.step():
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
        await self._triggers.boot(await self._boot_triggers(files.project), boot_id)
        return done

    async def _cancel_removed(self) -> None:
        """Removing a task cancels its waiting Runs, never a running one. Also heals a crash in between."""
        while True:
            page = await self._deps.ledger.unstarted_of_removed()
            for run_id in page.ids:
                await self._deps.ledger.transact(Keys(runs=(run_id,), frees=True), partial(_cancel, run_id))
            if not page.more:
                return

    async def _boot_triggers(self, project: str) -> tuple[Trigger, ...]:
        def decide(draft: Draft) -> tuple[Trigger, ...]:
            return tuple(trigger for trigger in draft.triggers.values() if trigger.next_ms is None)

        return await self._deps.ledger.transact(Keys(project=project), decide)


def _cancel(run_id: str, draft: Draft) -> None:
    found = draft.get(run_id)
    if found is None or ending.started(found):
        return
    change = ending.cancel(found, "definitions", "its task was removed", draft.now_ms)
    if isinstance(change, Change):
        draft.apply(change)
        promote(draft)
