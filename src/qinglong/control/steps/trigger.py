"""Step 3, trigger: admit due occurrences (design section 11), and those of this boot."""

from __future__ import annotations

import logging

from qinglong.control.deps import Deps
from qinglong.domain.admission import promote
from qinglong.domain.change import Draft
from qinglong.domain.occurring import advance, occur
from qinglong.domain.publishing import trigger_spec
from qinglong.domain.records import Trigger
from qinglong.errors import Conflict, Unavailable, Unknown
from qinglong.ledger.port import Keys

log = logging.getLogger("qinglong.cycle")


class TriggerStep:
    """A page of due triggers in one transaction; one by one if that fails, so that a bad one stops only itself.

    One that cannot be settled is set aside until nothing else is due: it stands in nobody's way.
    """

    def __init__(self, deps: Deps, limit: int) -> None:
        self._deps = deps
        self._limit = limit
        self.settled = 0
        """Triggers settled so far."""
        self._aside: set[str] = set()
        """Due triggers that could not be settled since the last step that found nothing else."""

    async def step(self) -> bool:
        """Settle a page of due triggers; whether any was, which asks for a follow-up.

        The follow-up finds what this page left, and the moment after it: the one that was due hid the next.
        """
        page = await self._deps.ledger.trigger_page(self._limit + len(self._aside))
        ids = tuple(trigger_id for trigger_id in page.ids if trigger_id not in self._aside)[: self._limit]
        if not ids:
            self._aside.clear()
            return False
        try:
            return await self._settle(ids)
        except (Unavailable, Unknown):
            raise
        except Exception:
            return await self._one_by_one(ids)

    async def _one_by_one(self, ids: tuple[str, ...]) -> bool:
        tried = False
        for trigger_id in ids:
            try:
                tried |= await self._settle((trigger_id,))
            except Conflict:
                continue
            except (Unavailable, Unknown):
                raise
            except Exception:
                log.exception("trigger %s cannot be settled; its occurrences stay due", trigger_id)
                self._aside.add(trigger_id)
                tried = True
        return tried

    async def _settle(self, ids: tuple[str, ...]) -> bool:
        def decide(draft: Draft) -> int:
            settled = 0
            for trigger_id in ids:
                trigger = draft.triggers.get(trigger_id)
                if trigger is None or trigger.next_ms is None or trigger.next_ms > draft.now_ms:
                    continue
                advance(draft, trigger, self._deps.ids.new)
                settled += 1
            promote(draft)
            return settled

        settled = await self._deps.ledger.transact(Keys(triggers=ids), decide)
        self.settled += settled
        return settled > 0

    async def boot(self, triggers: tuple[Trigger, ...], boot_id: str) -> int:
        """Admit each boot trigger that has not fired in this boot of the machine; how many did."""
        fired = 0
        for trigger in triggers:
            if trigger_spec(trigger).kind == "boot":
                fired += await self._booted(trigger.trigger_id, boot_id)
        return fired

    async def _booted(self, trigger_id: str, boot_id: str) -> bool:
        keys = Keys(triggers=(trigger_id,), occurrences=((trigger_id, boot_id),))

        def decide(draft: Draft) -> bool:
            trigger = draft.triggers.get(trigger_id)
            if trigger is None or (trigger_id, boot_id) in draft.occurred:
                return False
            task, spec = draft.tasks[trigger.task_id]
            occur(draft, trigger, task, spec, boot_id, draft.now_ms, self._deps.ids.new)
            promote(draft)
            return True

        return await self._deps.ledger.transact(keys, decide)
