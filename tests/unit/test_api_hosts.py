"""Which hosts a server answers to, by what it is bound to."""

from __future__ import annotations

import pytest

from qinglong.api.hosts import Hosts
from qinglong.errors import Invalid


def status(hosts, *values):
    try:
        hosts.check(list(values))
    except Invalid as error:
        return error.status
    return 200


@pytest.mark.parametrize(
    ("bound", "host", "wanted"),
    [
        ("127.0.0.1", "127.0.0.1:5800", 200),
        ("127.0.0.1", "localhost.", 200),
        ("127.0.0.1", "[::ffff:127.0.0.1]", 200),
        ("127.0.0.1", "0.0.0.0:5800", 421),
        ("127.0.0.1", "192.168.1.7", 421),
        ("192.168.1.7", "192.168.1.7:5800", 200),
        ("192.168.1.7", "192.168.1.8:5800", 421),
        ("box.lan", "BOX.lan", 200),
        ("0.0.0.0", "192.168.1.7", 200),
        ("0.0.0.0", "evil.example", 421),
        ("::", "[fd00::7]:5800", 200),
        ("::1", "[::1]", 200),
        ("127.0.0.1", "[::1]x", 400),
        ("127.0.0.1", "local host", 400),
        ("127.0.0.1", "localhost:65536x", 400),
    ],
)
def test_a_host_is_ours_or_not(bound, host, wanted):
    assert status(Hosts(bound), host) == wanted


def test_names_can_be_added():
    assert status(Hosts("0.0.0.0", ("jobs.lan",)), "jobs.lan:443") == 200


def test_there_is_exactly_one_host():
    assert status(Hosts("127.0.0.1")) == 400
    assert status(Hosts("127.0.0.1"), "localhost", "localhost") == 400
