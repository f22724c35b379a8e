"""Numbered migrations with checksums: the schema is what the files say, or the start is refused."""

from __future__ import annotations

import hashlib
from pathlib import Path

import apsw

from qinglong.errors import Damaged, Refused

_FOLDER = Path(__file__).parent / "migrations"
_VERSIONS = """
CREATE TABLE IF NOT EXISTS schema_version (
  number INTEGER PRIMARY KEY,
  name TEXT NOT NULL,
  sha256 TEXT NOT NULL,
  applied_ms INTEGER NOT NULL
) STRICT
"""


def files(folder: Path = _FOLDER) -> list[tuple[int, str, str]]:
    """(number, name, text) of every migration, in order; names are ``NNNN_{pre,post}_what.sql``."""
    found = sorted(folder.glob("[0-9][0-9][0-9][0-9]_*.sql"))
    return [(int(path.name[:4]), path.stem, path.read_text(encoding="utf-8")) for path in found]


def newest(folder: Path = _FOLDER) -> int:
    """The schema number that this program knows."""
    return files(folder)[-1][0]


def migrate(db: apsw.Connection, now_ms: int, folder: Path = _FOLDER) -> list[str]:
    """Apply what is missing, each file in one transaction; names of what was applied.

    Raises ``Refused`` when the database is newer than this program, ``Damaged`` when an applied file was changed.
    """
    known = files(folder)
    db.execute(_VERSIONS)
    applied = {
        row[0]: (row[1], row[2]) for row in db.execute("SELECT number, name, sha256 FROM schema_version")
    }
    newest = max(applied, default=0)
    if newest > known[-1][0]:
        raise Refused(
            "schema_newer",
            f"the data folder has schema {newest}, this program knows {known[-1][0]}",
            remedy="start the newer version of ql that wrote it, or restore a backup made before it",
        )
    done: list[str] = []
    for number, name, text in known:
        checksum = hashlib.sha256(text.encode()).hexdigest()
        if number in applied:
            if applied[number][1] != checksum:
                raise Damaged("schema_changed", f"migration {name} was applied with another content")
            continue
        with db:
            db.execute(text)
            db.execute("INSERT INTO schema_version VALUES (?, ?, ?, ?)", (number, name, checksum, now_ms))
        done.append(name)
    return done
