"""Placement keys: which workers may run a task, and which should."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from qinglong.domain import placement
from qinglong.domain.change import Change
from qinglong.domain.definitions import Placement
from qinglong.domain.dispatch import grant
from qinglong.limits import PREFER_MS
from support.builders import LEASE_MS, admitted, refused, session, want
from support.clock import T0

ARM = Placement(required={"arch": ("arm64", "armv7")})
SSD = Placement(preferred={"disk": ("ssd",)})


def test_equal_placements_have_equal_keys_and_none_has_the_empty_one():
    other = Placement(required={"arch": ("armv7", "arm64", "arm64")})
    assert placement.key(ARM) == placement.key(other)
    assert placement.key(Placement()) == ""
    assert placement.read(placement.key(ARM)) == ARM


@pytest.mark.parametrize(
    ("capabilities", "lacks"),
    [({"arch": "arm64"}, ()), ({"arch": "amd64"}, ("arch",)), ({}, ("arch",)), ({"arch": ""}, ("arch",))],
)
def test_a_worker_without_a_required_capability_is_told_which(capabilities, lacks):
    assert placement.missing(placement.key(ARM), capabilities) == lacks
    assert placement.missing("", capabilities) == ()


def test_a_preferred_worker_is_waited_for_a_moment_only():
    key = placement.key(SSD)
    assert placement.still_preferred(key, {}, T0, T0 + PREFER_MS - 1)
    assert not placement.still_preferred(key, {}, T0, T0 + PREFER_MS)
    assert not placement.still_preferred(key, {"disk": "ssd"}, T0, T0)


def placed(wish):
    found = admitted()
    return replace(found, run=replace(found.run, placement=placement.key(wish)))


def test_a_run_is_granted_only_where_it_may_run():
    who = session(capabilities={"arch": "amd64"})
    assert refused(grant(placed(ARM), who, want(1), 1, T0, LEASE_MS)) == "placement"
    who = session(capabilities={"arch": "arm64"})
    assert isinstance(grant(placed(ARM), who, want(1), 1, T0, LEASE_MS), Change)


def test_a_run_is_granted_to_any_worker_once_the_preferred_one_did_not_come():
    found, who = placed(SSD), session()
    moment = found.run.created_ms
    assert refused(grant(found, who, want(1), 1, moment, LEASE_MS)) == "prefers_another"
    assert isinstance(grant(found, who, want(1), 1, moment + PREFER_MS, LEASE_MS), Change)
