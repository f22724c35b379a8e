"""Who may do what: from a presented token to its permissions. Default deny.

Opaque random tokens need no slow hash: SHA-256 digests are kept, compared in constant time, and every stored
one is compared, so that timing tells neither which one matched nor how far.
"""

from __future__ import annotations

import hashlib
import hmac
from typing import Final, Literal, NamedTuple

Permission = Literal["public", "view", "operate"]
PERMISSIONS: Final[frozenset[str]] = frozenset({"public", "view", "operate"})
_ALL: Final[frozenset[Permission]] = frozenset({"view", "operate"})
_SCHEME: Final = "bearer"


class Grant(NamedTuple):
    """What a token allows; ``name`` stands in Events as who did it."""

    name: str
    permissions: frozenset[Permission]


class Tokens:
    """The accepted tokens, as digests."""

    def __init__(self, grants: dict[bytes, Grant]) -> None:
        self._grants = tuple(grants.items())

    @classmethod
    def local(cls, token: str) -> Tokens:
        """The one local token, with every permission."""
        return cls({_digest(token): Grant("local", _ALL)})

    def grant(self, fields: list[str]) -> Grant | None:
        """What the request's ``Authorization`` fields allow (RFC 6750 section 2.1); ``None``: nothing."""
        if len(fields) != 1:
            return None
        scheme, _, token = fields[0].partition(" ")
        if scheme.lower() != _SCHEME or not token:
            return None
        presented = _digest(token.strip(" "))
        found = None
        for digest, grant in self._grants:
            if hmac.compare_digest(digest, presented):
                found = grant
        return found


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8")).digest()
