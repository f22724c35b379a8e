"""The worker's journal: one entry for each command that may be running (design section 6).

The entry, with the keeper's identity in it, is durable before the go byte is sent, and is removed once the end is
acknowledged, and the log too where a store keeps it. So no entry means: it never began, or its end is known. Nothing
else needs a record.
"""

from __future__ import annotations

import hashlib
import hmac
from pathlib import Path

import apsw
import msgspec

from qinglong.domain.completion import StoppedBy
from qinglong.domain.definitions import OnLeaseLoss, TaskSpec
from qinglong.effects import Ids, Rng
from qinglong.sqlite import Writer, connect
from qinglong.worker.host import AttemptKey, Identity

_SCHEMA = """
CREATE TABLE IF NOT EXISTS journal (name TEXT PRIMARY KEY, value BLOB NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS entries (
  run_id TEXT NOT NULL,
  step TEXT NOT NULL,
  number INTEGER NOT NULL,
  body BLOB NOT NULL,
  PRIMARY KEY (run_id, step, number)
) STRICT, WITHOUT ROWID;
"""
_PUT = "INSERT OR REPLACE INTO entries (run_id, step, number, body) VALUES (?, ?, ?, ?)"
_DELETE = "DELETE FROM entries WHERE run_id = ? AND step = ? AND number = ?"


class Entry(msgspec.Struct, omit_defaults=True):
    """One Attempt in this worker's hands."""

    run_id: str
    step: str
    number: int
    offer_id: str
    generation: int
    version: int
    task: str
    spec: TaskSpec
    fence: int
    scheduled_ms: int | None = None
    on_lease_loss: OnLeaseLoss = OnLeaseLoss()
    identity: Identity | None = None
    """Known and durable before the go byte; ``None``: the command never began."""
    timeout_boot_ms: int | None = None
    """When the Attempt times out, by CLOCK_BOOTTIME of the boot in ``identity``."""
    stopped_by: StoppedBy = ""
    """Who asked it to stop; durable before the first signal."""
    reported: bool = False
    """Its end is acknowledged, and only its log is still on the way to the store."""

    @property
    def key(self) -> AttemptKey:
        return AttemptKey(self.run_id, self.step, self.number)


_encode = msgspec.json.encode
_decode = msgspec.json.Decoder(Entry).decode


class Journal:
    """One file, one owner: whoever holds the data folder's lock."""

    def __init__(self, path: Path, ids: Ids, rng: Rng) -> None:
        db = connect(path, cache_kib=512)
        db.execute(_SCHEMA)
        with db:
            _once(db, "journal_id", ids.new().encode())
            _once(db, "key", rng.token_bytes(32))
            _once(db, "revision", b"0")
            self.revision = int(_get(db, "revision")) + 1
            db.execute("UPDATE journal SET value = ? WHERE name = 'revision'", (str(self.revision).encode(),))
        self.journal_id = _get(db, "journal_id").decode()
        self._key = _get(db, "key")
        self._open = [_decode(row[0]) for row in db.execute("SELECT body FROM entries ORDER BY run_id")]
        self._writer = Writer(db, "journal")

    def open_entries(self) -> list[Entry]:
        """What earlier processes of this worker left open."""
        return list(self._open)

    def token(self, offer_id: str) -> str:
        """The secret of an offer, in hex: HMAC under a key that never leaves this file."""
        return hmac.new(self._key, offer_id.encode(), hashlib.sha256).hexdigest()

    def token_digest(self, offer_id: str) -> str:
        """What the control plane stores of it."""
        return hashlib.sha256(bytes.fromhex(self.token(offer_id))).hexdigest()

    async def put(self, entry: Entry) -> None:
        """Store the entry as it is; durable on return."""
        body = _encode(entry)
        await self._writer.run(lambda db: _write(db, _PUT, (*entry.key, body)))

    async def close_entry(self, key: AttemptKey) -> None:
        """Completion and log are acknowledged: nothing of this Attempt is ours any more."""
        await self._writer.run(lambda db: _write(db, _DELETE, tuple(key)))

    @property
    def commits(self) -> int:
        """COMMITs so far."""
        return self._writer.commits

    def close(self) -> None:
        """Finish and close the file; blocks."""
        self._writer.close()


def _write(db: apsw.Connection, text: str, values: tuple[str | int | bytes, ...]) -> None:
    db.execute(text, values)


def _once(db: apsw.Connection, name: str, value: bytes) -> None:
    db.execute("INSERT OR IGNORE INTO journal (name, value) VALUES (?, ?)", (name, value))


def _get(db: apsw.Connection, name: str) -> bytes:
    row = db.execute("SELECT value FROM journal WHERE name = ?", (name,)).fetchone()
    assert row is not None
    value = row[0]
    assert isinstance(value, bytes)
    return value
