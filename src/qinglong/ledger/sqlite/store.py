"""The SQLite ledger: the port's transactions and candidate queries over one writer thread."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

import apsw

from qinglong.domain.change import Draft
from qinglong.domain.records import Lease
from qinglong.effects import Clock
from qinglong.ledger.port import Due, Hints, Keys, Page
from qinglong.ledger.sqlite import rows, statements
from qinglong.ledger.sqlite.apply import apply
from qinglong.ledger.sqlite.load import load
from qinglong.limits import PAGE_CAP, PLACEMENTS
from qinglong.sqlite import Writer

T = TypeVar("T")


class SqliteLedger:
    """``ledger/port.py`` on SQLite. Candidate reads go through the writer too: they see every commit before them."""

    def __init__(self, writer: Writer, clock: Clock) -> None:
        self._writer = writer
        self._clock = clock
        self._listeners: list[Callable[[Hints], None]] = []
        self.transactions = 0
        """Transactions so far; tests and the bench count them."""
        self.reads = 0
        """Candidate reads so far."""

    def on_commit(self, listener: Callable[[Hints], None]) -> None:
        """See the port."""
        self._listeners.append(listener)

    async def transact(self, keys: Keys, decide: Callable[[Draft], T]) -> T:
        """See the port. The clock is read inside the transaction (I11)."""
        hints: Hints | None = None

        def member(db: apsw.Connection) -> T:
            nonlocal hints
            draft = load(db, keys, self._clock.wall_ms())
            result = decide(draft)
            hints = apply(db, draft)
            return result

        def after() -> None:
            if hints is not None:
                for listener in self._listeners:
                    listener(hints)

        self.transactions += 1
        return await self._writer.run(member, after)

    async def _read(self, read: Callable[[apsw.Connection], T]) -> T:
        self.reads += 1
        return await self._writer.read(read)

    async def due(self) -> Due:
        """See the port."""
        now = self._clock.wall_ms()

        def read(db: apsw.Connection) -> Due:
            moments = statements.row(db, "due/next", (now,)) or (None, None, None, None)
            held = statements.row(db, "place/sweep", (1,)) is not None
            judge, retry, trigger, _ = moments
            later = [moment for moment in moments if moment is not None and moment > now]
            return Due(
                recover=judge is not None and judge <= now,
                retry=held or (retry is not None and retry <= now),
                trigger=trigger is not None and trigger <= now,
                next_ms=min(later, default=None),
                offers=tuple(row[0] for row in statements.rows(db, "queue/placements", (PLACEMENTS,))),
            )

        return await self._read(read)

    async def _page(self, name: str, limit: int, *values: object) -> Page:
        def read(db: apsw.Connection) -> Page:
            found = [row[0] for row in statements.rows(db, name, (*values, limit + 1))]
            return Page(tuple(found[:limit]), len(found) > limit)

        return await self._read(read)

    async def recover_page(self, limit: int, *, hold_claimed: bool = False) -> Page:
        """See the port."""
        return await self._page("lease/candidates", limit, self._clock.wall_ms(), hold_claimed)

    async def retry_page(self, limit: int) -> Page:
        """See the port: what is due first, then what a promotion missed."""
        due = await self._page("due/candidates", limit, self._clock.wall_ms())
        if due.ids:
            return due
        return await self._page("place/sweep", limit)

    async def trigger_page(self, limit: int) -> Page:
        """See the port."""
        return await self._page("trigger/candidates", limit, self._clock.wall_ms())

    async def unstarted_of_removed(self) -> Page:
        """See the port."""
        return await self._page("run/open_of_removed", PAGE_CAP)

    async def specs(self, wanted: tuple[tuple[str, int], ...]) -> dict[tuple[str, int], bytes]:
        """See the port."""

        def read(db: apsw.Connection) -> dict[tuple[str, int], bytes]:
            found = {pair: statements.row(db, "task/get_revision", pair) for pair in wanted}
            return {pair: row[0] for pair, row in found.items() if row is not None}

        return await self._read(read)

    async def leases_of(self, worker: str) -> tuple[Lease, ...]:
        """See the port."""

        def read(db: apsw.Connection) -> tuple[Lease, ...]:
            return tuple(rows.lease_of(row) for row in statements.rows(db, "lease/of_worker", (worker,)))

        return await self._read(read)

    async def worker_of_token(self, digest: str) -> str | None:
        """See the port."""

        def read(db: apsw.Connection) -> str | None:
            row = statements.row(db, "worker_token/get", (digest,))
            return None if row is None else row[0]

        return await self._read(read)

    async def close(self) -> None:
        """Finish what is queued and close the database."""
        await asyncio.to_thread(self._writer.close)
