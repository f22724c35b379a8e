"""The route table: default deny, and what it must never contain."""

from __future__ import annotations

import msgspec
import pytest

from api_support import FakeControl, an_api
from qinglong.api import reference
from qinglong.api.call import Answer
from qinglong.api.routes import ROUTES
from qinglong.api.table import Route
from qinglong.errors import Refused
from qinglong.wire import api as wire


async def handler(call):
    return Answer(b"")


@pytest.mark.parametrize(
    "routes",
    [
        (Route("GET", "/x", None, handler, ""),),
        (Route("GET", "/x", "", handler, ""),),
        (Route("GET", "/x", "admin", handler, ""),),
        (Route("GET", "/api/v1/runs", "public", handler, ""),),
        (Route("POST", "/healthz", "public", handler, ""),),
        (Route("GET", "/x", "view", handler, ""), Route("GET", "/x", "operate", handler, "")),
    ],
)
def test_an_undeclared_route_does_not_start(routes):
    with pytest.raises(Refused) as raised:
        an_api(FakeControl(), routes=(*ROUTES, *routes))
    assert raised.value.code == "route_undeclared"


def test_case_74_no_route_sets_anything_up():
    """A server is initialised by its own first start; no request can do it, or do it again."""
    words = ("setup", "set-up", "init", "install", "register", "login", "password", "user", "token", "admin")
    assert not [route.path for route in ROUTES if any(word in route.path.lower() for word in words)]


def test_only_the_health_checks_are_public_and_only_posts_change():
    assert {route.path for route in ROUTES if route.permission == "public"} == {"/healthz", "/readyz"}
    for route in ROUTES:
        assert (route.method == "POST") == (route.permission == "operate")
        assert (route.request is not None) == (route.method == "POST")


def test_every_struct_of_the_table_belongs_to_the_wire():
    for route in ROUTES:
        for struct in (route.query, route.request, route.response):
            assert struct is None or getattr(wire, struct.__name__) is struct
        for struct in (route.query, route.request):
            assert struct is None or struct.__struct_config__.forbid_unknown_fields


def test_the_reference_names_every_route_and_field():
    text = reference.generated()
    for route in ROUTES:
        assert f"`{route.method} {route.path}` | {route.permission} |" in text
    for struct in (wire.RunInfo, wire.SkippedInfo, wire.RunsQuery, wire.Problem):
        for field in msgspec.structs.fields(struct):
            assert f"- `{field.encode_name}`: " in text


def test_the_committed_reference_is_current(pytestconfig):
    text = (pytestconfig.rootpath / "docs" / "api.md").read_text(encoding="utf-8")
    assert reference.refreshed(text) == text, "run `python -m qinglong.api.reference docs/api.md`"


def test_a_page_without_marks_is_not_touched():
    with pytest.raises(ValueError, match="marks"):
        reference.refreshed("# no marks")
