"""Which worker a request comes from: by its token, never by what it says about itself (design section 6).

Answers are remembered for a few seconds, so that a worker's requests cost no query each. What a stranger can make
this replica ask the ledger is bounded: so many tokens a second that it has never seen, whatever they are.
"""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from qinglong.effects import Clock
from qinglong.errors import Unauthorised, Unavailable
from qinglong.limits import SECOND, TOKENS_ASKED, TOKENS_SEEN, TOKENS_SEEN_MS

_SCHEME = "bearer"
_TOKEN_CHARS = 256
_REMEDY = "make a new one with `ql worker token NAME` and start the worker with it"


class _Good(NamedTuple):
    worker: str
    until_ms: int


class WorkerTokens:
    """Tokens seen by this replica. ``lookup`` is ``Ledger.worker_of_token``."""

    def __init__(self, lookup: Callable[[str], Awaitable[str | None]], clock: Clock) -> None:
        self._lookup = lookup
        self._clock = clock
        self._good: dict[str, _Good] = {}
        self._bad: dict[str, int] = {}
        self._second = 0
        self._asked = 0

    async def worker(self, fields: list[str]) -> str:
        """The worker name that the request's ``Authorization`` fields stand for (RFC 6750 section 2.1).

        Raises ``Unauthorised`` (``token_missing``, ``token_unknown``), ``Unavailable`` (``token_flood``, or the
        ledger cannot be asked).
        """
        if not fields:
            raise Unauthorised(
                "token_missing", "this needs a worker's token", remedy="send 'Authorization: Bearer <token>'"
            )
        scheme, _, token = fields[0].partition(" ")
        token = token.strip(" ")
        if len(fields) > 1 or scheme.lower() != _SCHEME or not token or len(token) > _TOKEN_CHARS:
            raise _unknown()
        digest = hashlib.sha256(token.encode("latin-1", "replace")).hexdigest()
        now = self._clock.boot_ms()
        known = self._good.get(digest)
        if known is not None and known.until_ms > now:
            return known.worker
        if self._bad.get(digest, 0) > now:
            raise _unknown()
        if known is None:
            self._ration(now)
        found = await self._lookup(digest)
        self._remember(digest, found, now + TOKENS_SEEN_MS)
        if found is None:
            raise _unknown()
        return found

    def _ration(self, now_ms: int) -> None:
        """A flood of strange tokens must not become a flood of queries; good ones are asked for whatever comes."""
        second = now_ms // SECOND
        if second != self._second:
            self._second, self._asked = second, 0
        if self._asked >= TOKENS_ASKED:
            raise Unavailable("token_flood", "too many unknown tokens are tried", remedy="try again")
        self._asked += 1

    def _remember(self, digest: str, worker: str | None, until_ms: int) -> None:
        self._good.pop(digest, None)
        self._bad.pop(digest, None)
        if worker is None:
            self._bad[digest] = until_ms
            _shorten(self._bad)
        else:
            self._good[digest] = _Good(worker, until_ms)
            _shorten(self._good)


def _shorten(seen: dict[str, _Good] | dict[str, int]) -> None:
    """Forget the oldest."""
    if len(seen) > TOKENS_SEEN:
        del seen[next(iter(seen))]


def _unknown() -> Unauthorised:
    return Unauthorised("token_unknown", "the token is wrong or was revoked", remedy=_REMEDY)
