"""Which ``Host`` the API answers to: a web page must not reach it through a name of its own (DNS rebinding).

A browser that was led to ``http://evil.example:5800/`` and then told that this name is 127.0.0.1 sends
``Host: evil.example``. Loopback names and addresses, the bound address and names given on purpose are
answered; everything else is misdirected (RFC 9110 section 7.4).
"""

from __future__ import annotations

import re
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Final

from qinglong.api.problems import BadRequest

_HOST: Final = re.compile(r"(?:\[([0-9a-fA-F:.]{2,45})\]|([A-Za-z0-9._-]{1,253}))(?::[0-9]{0,5})?")


class Hosts:
    """The hosts that a server bound to ``bound`` answers to; the port does not matter (tunnels change it)."""

    def __init__(self, bound: str, names: tuple[str, ...] = ()) -> None:
        self._names = frozenset({"localhost", _plain(bound), *map(_plain, names)})
        address = _address(_plain(bound))
        self._any_address = address is not None and address.is_unspecified
        """Bound to every address: any address will do, a name still must be known."""

    def check(self, values: list[str]) -> None:
        """Refuse what is not ours. ``values``: every ``Host`` field of the request.

        Raises ``BadRequest``: 400 ``host_missing`` or ``host_invalid``, 421 ``host_unknown``.
        """
        if len(values) != 1:
            message = "the request has no Host field" if not values else "the request has several Host fields"
            raise BadRequest(400, "host_missing" if not values else "host_invalid", message)
        match = _HOST.fullmatch(values[0])
        if match is None:
            raise BadRequest(400, "host_invalid", "the Host field is not a host")
        if not self._known(_plain(match[1] or match[2])):
            raise BadRequest(
                421,
                "host_unknown",
                "this server does not answer to that host name",
                remedy="use 127.0.0.1, localhost or the address that the server is bound to",
            )

    def _known(self, host: str) -> bool:
        if host in self._names:
            return True
        address = _address(host)
        return address is not None and (address.is_loopback or self._any_address)


def _plain(host: str) -> str:
    return host.lower().rstrip(".").strip("[]")


def _address(host: str) -> IPv4Address | IPv6Address | None:
    try:
        found = ip_address(host)
    except ValueError:
        return None
    if isinstance(found, IPv6Address) and found.ipv4_mapped is not None:
        return found.ipv4_mapped
    return found
