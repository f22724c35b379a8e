"""Settings of a ledger, decided once and kept."""

from __future__ import annotations

import apsw

from qinglong.ledger.sqlite import statements


def setting(db: apsw.Connection, name: str, first: str) -> str:
    """The stored value; ``first`` is stored, and returned, when there is none."""
    db.execute(statements.sql("meta/insert"), (name, first))
    row = statements.row(db, "meta/get", (name,))
    return first if row is None else str(row[0])
