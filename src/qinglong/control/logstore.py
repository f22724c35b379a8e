"""The port to a store of logs: small immutable objects in a folder for each Attempt (design section 7, ADR 0018).

A store knows nothing of logs. Everything that there is to know about one is in the names of its objects
(``control/loglayout.py``), so any replica can go on from what another has stored. Implemented by ``logstores/``.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from typing import Final, NamedTuple, Protocol

from qinglong.errors import Unavailable

_SAFE: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}")


class LogKey(NamedTuple):
    """Names the log of one Attempt; ``step`` is empty for plain Runs."""

    run_id: str
    step: str
    number: int

    @property
    def folder(self) -> str:
        """Where its objects are: three levels, so that no directory has an entry for every Run."""
        run = _safe(self.run_id)
        return f"{run[-2:]}/{run}/{_safe(self.step) if self.step else '-'}.{self.number}"

    def __str__(self) -> str:
        step = f" step {self.step}" if self.step else ""
        return f"run {self.run_id}{step} attempt {self.number}"


def _safe(text: str) -> str:
    """``text`` if it may be a file name, else its digest behind ``=``: no request names a path of its own."""
    if _SAFE.fullmatch(text):
        return text
    return "=" + hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


class Objects(Protocol):
    """The objects of one store. All calls raise ``Unavailable`` when the store cannot be reached or used."""

    async def names(self, folder: str) -> tuple[str, ...]:
        """The names of all objects in the folder, in any order, at least those whose ``put`` has returned."""
        ...

    async def put(self, folder: str, name: str, data: bytes) -> None:
        """Store an object, whole or not at all; durable on return.

        Its name carries a digest of ``data``, so an object that is there already is the same, and stays.
        """
        ...

    async def get(self, folder: str, name: str, offset: int, size: int) -> bytes | None:
        """``size`` bytes from ``offset``, fewer at the end of the object; ``None`` if there is no such object."""
        ...

    async def delete(self, folder: str, names: Sequence[str]) -> None:
        """Remove objects; those that are gone already do not matter."""
        ...


def unavailable(what: str, error: Exception) -> Unavailable:
    """The error of a store that cannot be used now; what it kept is untouched, and the same call may be repeated."""
    return Unavailable(
        "log_store", f"the log store {what}: {error}", remedy="see that it is up and may be used"
    )
