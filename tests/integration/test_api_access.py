"""Over a real socket: nothing is served without a token, and nothing that the route table does not declare."""

from __future__ import annotations

import itertools

import pytest

from api_support import MARK, NOBODY, TOKEN, VIEWER, path_of, serving
from qinglong.api.routes import ROUTES

PATHS = sorted({path_of(route.path) for route in ROUTES})
PUBLIC = {"/healthz", "/readyz"}
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "PROPFIND")
SET_UP = (
    *("/setup", "/api/v1/setup", "/init", "/api/v1/init", "/install", "/register", "/api/v1/register"),
    *("/login", "/admin", "/api/v1/users", "/api/v1/tokens", "/api/user/init", "/open/auth/token", "/"),
)
"""Paths under which products of this kind let a first visitor become the owner."""


@pytest.fixture(scope="module")
def served():
    with serving() as running:
        yield running


def odd_spellings(path):
    """One path as a proxy, a router or a file server might normalise it."""
    first, _, rest = path[1:].partition("/")
    yield from (path.upper(), path.title(), path.swapcase(), path + "/", path + "//", "/" + path, path + "/.")
    yield from (path + "/..;/", path + ";x=1", path + "%00", path + "%20", path + "%0a", path + ".json")
    yield from (
        "/./" + path[1:],
        "/x/.." + path,
        "/x/..;" + path,
        "/%2e" + path,
        "/x/%2e%2e" + path,
        "/%2f" + path,
    )
    yield "/" + "".join(f"%{ord(char):02x}" for char in path[1:])
    yield "/" + first + "%2F" + rest
    yield "/" + first + "\\" + rest
    yield "/healthz/.." + path
    yield "/healthz;" + path
    yield "/healthz%2f.." + path
    yield path + "?token=" + TOKEN
    yield path + "?access_token=" + TOKEN


def is_refused(reply, allowed=(401, 404)):
    assert reply.status in allowed, reply
    assert "location" not in reply.headers
    assert "access-control-allow-origin" not in reply.headers
    assert MARK.encode() not in reply.body


@pytest.mark.parametrize("path", PATHS)
def test_case_73_every_path_in_every_spelling_needs_a_token(served, path):
    for odd in odd_spellings(path):
        # What the HTTP parser itself refuses, such as a backslash, is 400 before any routing.
        is_refused(served.get(odd, token=None), (401, 404, 400))


@pytest.mark.parametrize("path", [path for path in PATHS if path not in PUBLIC])
def test_case_73_every_method_needs_a_token(served, path):
    for method in METHODS:
        is_refused(served.ask(method, path, token=None), (401,))
        is_refused(served.ask(method, path, token="x" * 43), (401,))


@pytest.mark.parametrize("path", sorted(PUBLIC))
def test_health_checks_are_public_for_reading_only(served, path):
    for method in METHODS:
        reply = served.ask(method, path, token=None)
        assert reply.status == (200 if method in {"GET", "HEAD"} else 401)
        assert MARK.encode() not in reply.body


@pytest.mark.parametrize(
    "value",
    [
        *(
            "",
            "Bearer",
            "Bearer ",
            f"Basic {TOKEN}",
            TOKEN,
            f"Bearer{TOKEN}",
            f"Bearer {TOKEN}x",
            f"Bearer {TOKEN[:-1]}",
        ),
        *(f"Bearer {TOKEN.upper()}", f"Bearer {TOKEN} {TOKEN}", f"Bearer {TOKEN},x", "Bearer \xff\xfe"),
    ],
)
def test_only_the_exact_token_is_accepted(served, value):
    reply = served.get("/api/v1/runs", token=None, headers={"Authorization": value})
    is_refused(reply, (401,))
    assert reply.headers["www-authenticate"] == 'Bearer realm="qinglong"'
    assert reply.json["exit_code"] == 7


def test_the_scheme_is_case_insensitive_and_two_tokens_are_none(served):
    assert served.get("/api/v1/runs", token=None, headers={"Authorization": f"bEaReR {TOKEN}"}).status == 200
    head = f"GET /api/v1/runs HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nAuthorization: Bearer {TOKEN}\r\n"
    assert served.raw(f"{head}\r\n".encode()).startswith(b"HTTP/1.1 200 ")
    assert served.raw(f"{head}Authorization: Bearer x\r\n\r\n".encode()).startswith(b"HTTP/1.1 401 ")


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: f"{route.method} {route.path}")
def test_every_route_demands_its_permission(served, route):
    path, body = path_of(route.path), {"task": "backup"} if route.path.endswith("/runs") else {}
    body = body if route.method == "POST" else None
    for token, held in ((NOBODY, set()), (VIEWER, {"view"}), (TOKEN, {"view", "operate"})):
        reply = served.ask(route.method, path, body, token=token)
        if route.permission == "public" or route.permission in held:
            assert reply.status < 300, reply
        else:
            assert reply.status == 403 and reply.json["code"] == "permission_missing"
            assert MARK.encode() not in reply.body


@pytest.mark.parametrize("path", SET_UP)
def test_case_74_there_is_nothing_to_set_up(served, path):
    for method in ("GET", "POST", "PUT"):
        is_refused(served.ask(method, path, token=None), (401,))
        is_refused(served.ask(method, path, token=TOKEN), (403, 404))
    assert not served.control.calls or served.control.calls[-1][0] != "setup"


def test_odd_spellings_are_unknown_even_with_a_token(served):
    for path in PATHS:
        for odd in itertools.islice(odd_spellings(path), 20):
            reply = served.get(odd)
            assert reply.status in {404, 400}, odd
            assert "location" not in reply.headers and MARK.encode() not in reply.body


def test_a_wrong_method_with_a_token_says_which_exist(served):
    reply = served.ask("DELETE", "/api/v1/runs")
    assert (reply.status, reply.headers["allow"]) == (405, "GET, HEAD, POST")
    reply = served.ask("OPTIONS", "/api/v1/runs")
    assert reply.status == 405 and "access-control-allow-methods" not in reply.headers


def test_head_is_get_without_a_body(served):
    got, head = served.get("/api/v1/runs"), served.ask("HEAD", "/api/v1/runs")
    assert (head.status, head.body) == (200, b"")
    assert head.headers["content-length"] == str(len(got.body))


@pytest.mark.parametrize(
    ("host", "status"),
    [
        *((host, 200) for host in ("127.0.0.1", "localhost", "LOCALHOST:1", "[::1]:5800", "127.9.9.9:80")),
        *(
            (host, 421)
            for host in ("evil.example", "localhost.evil.example", "10.0.0.1", "127.0.0.1.evil.example")
        ),
        *((host, 400) for host in ("", "a b", "127.0.0.1:80:80", "user@127.0.0.1", "127.0.0.1/x", "[::1")),
    ],
)
def test_dns_rebinding_is_refused(served, host, status):
    for path in ("/healthz", "/api/v1/runs"):
        reply = served.get(path, headers={"Host": host})
        assert reply.status == status, reply
        assert status == 200 or MARK.encode() not in reply.body


def test_a_request_without_or_with_two_hosts_is_refused(served):
    assert served.raw(b"GET /healthz HTTP/1.0\r\n\r\n").startswith(b"HTTP/1.1 400 ")
    two = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    assert served.raw(two).startswith(b"HTTP/1.1 400 ")


def test_every_answer_carries_the_security_headers(served):
    for reply in (served.get("/healthz"), served.get("/nothing"), served.get("/api/v1/runs", token=None)):
        assert reply.headers["x-content-type-options"] == "nosniff"
        assert reply.headers["cache-control"] == "no-store"
        assert reply.headers["date"].endswith(" GMT")
        assert "server" not in reply.headers
