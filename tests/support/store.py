"""A SQLite ledger in a folder, under a test's clock."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import apsw

from qinglong.ledger.sqlite.migrate import migrate
from qinglong.ledger.sqlite.queries import SqliteQueries
from qinglong.ledger.sqlite.store import SqliteLedger
from qinglong.sqlite import Reader, Writer, connect
from support.clock import FakeClock


class Store:
    """The ledger and its queries; ``close`` and make another to restart on the same data."""

    def __init__(self, folder: Path, clock: FakeClock, *, durable: bool = True) -> None:
        self.path = folder / "ledger.db"
        self.clock = clock
        db = connect(self.path)
        if not durable:
            db.execute("PRAGMA synchronous=OFF")
        migrate(db, clock.wall_ms())
        self.writer = Writer(db, "test-ledger")
        self.reader = Reader(self.path, "test-queries")
        self.ledger = SqliteLedger(self.writer, clock)
        self.queries = SqliteQueries(self.reader)

    def rows(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        """Look beside the ledger, by a connection of its own."""
        db = connect(self.path, readonly=True)
        try:
            return db.execute(statement, values).fetchall()
        finally:
            db.close()

    def tamper(self, statement: str, *values: Any) -> None:
        """Change beside the ledger, as a fault would."""
        db = apsw.Connection(str(self.path))
        db.set_busy_timeout(5_000)
        try:
            db.execute(statement, values)
        finally:
            db.close()

    def close(self) -> None:
        self.writer.close()
        self.reader.close()
