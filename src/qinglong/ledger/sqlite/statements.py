"""The SQL of this ledger: one statement a file under ``sql/<noun>/<verb>.sql``."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any, TypeAlias

import apsw

Row: TypeAlias = tuple[Any, ...]
Values: TypeAlias = tuple[Any, ...] | dict[str, Any]

_FOLDER = Path(__file__).parent / "sql"


@cache
def sql(name: str) -> str:
    """The statement of ``name`` such as ``run/get``, without its header."""
    text = (_FOLDER / f"{name}.sql").read_text(encoding="utf-8")
    return "\n".join(line for line in text.splitlines() if not line.startswith("--"))


def row(db: apsw.Connection, name: str, values: Values = ()) -> Row | None:
    """The first row of statement ``name``."""
    found: Row | None = db.execute(sql(name), values).fetchone()
    return found


def rows(db: apsw.Connection, name: str, values: Values = ()) -> list[Row]:
    """Every row of statement ``name``; the statements bound themselves by LIMIT."""
    found: list[Row] = db.execute(sql(name), values).fetchall()
    return found


def names() -> list[str]:
    """Every statement there is; tests EXPLAIN each."""
    return sorted(str(path.relative_to(_FOLDER))[:-4] for path in _FOLDER.glob("*/*.sql"))
