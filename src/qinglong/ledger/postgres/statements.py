"""The SQL of this ledger: one statement a file under ``sql/<noun>/<verb>.sql``, prepared once a connection."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any, LiteralString, TypeAlias

import psycopg

Db: TypeAlias = psycopg.Connection[tuple[Any, ...]]
Row: TypeAlias = tuple[Any, ...]
Cursor: TypeAlias = psycopg.Cursor[Row]

_FOLDER = Path(__file__).parent / "sql"


@cache
def sql(name: str) -> LiteralString:
    """The statement of ``name`` such as ``run/get``, without its header."""
    text = (_FOLDER / f"{name}.sql").read_text(encoding="utf-8")
    return "\n".join(line for line in text.splitlines() if not line.startswith("--"))


def send(db: Db, name: str, *values: Any) -> Cursor:
    """Run statement ``name``; inside a pipeline it is only sent, and its rows come with the first fetch."""
    return db.execute(sql(name), values or None, prepare=True)


def names() -> list[str]:
    """Every statement there is; tests EXPLAIN each."""
    return sorted(str(path.relative_to(_FOLDER))[:-4] for path in _FOLDER.glob("*/*.sql"))
