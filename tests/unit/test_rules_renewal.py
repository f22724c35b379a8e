"""Renewal and adoption: a Lease lives on, for its holder or its journal's next process only."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from qinglong.domain import recovery
from qinglong.domain.completion import Result, complete
from qinglong.domain.renewal import adopt, renew
from support.builders import LEASE_MS, accepted, claimed, fence, refused, running, session, started, told
from support.clock import T0


def test_a_renewal_lengthens_the_lease_and_makes_no_event():
    found = running()
    change = renew(found, fence(found), T0 + 15_000, LEASE_MS)
    lease = accepted(change).lease
    assert change.events == ()
    assert (lease.version, lease.floor) == (found.lease.version + 1, found.lease.floor)
    assert lease.expires_ms == lease.judge_ms == T0 + 15_000 + LEASE_MS
    assert accepted(change).attempt.lease_version == lease.version


def test_an_expired_lease_that_nobody_ended_is_renewed():
    found = running()
    late = T0 + 100 * LEASE_MS
    assert accepted(renew(found, fence(found), late, LEASE_MS)).lease.expires_ms == late + LEASE_MS


def test_a_renewal_ends_unreachability_and_tells_since_when():
    found = accepted(recovery.judge(running(), None, T0 + LEASE_MS, 0.0))
    change = renew(found, fence(found), T0 + 2 * LEASE_MS, LEASE_MS)
    assert accepted(change).run.unreachable_ms is None
    assert told(change)["reachable"]["since_ms"] == T0 + LEASE_MS
    assert refused(recovery.judge(accepted(change), None, T0 + 2 * LEASE_MS, 0.0)) == "live"


def test_case_24_a_job_of_twenty_minutes_that_renews_every_15_s_is_never_judged():
    found, now = running(), T0
    while now < T0 + 20 * 60_000:
        now += 15_000
        found = accepted(renew(found, fence(found), now, LEASE_MS))
        assert refused(recovery.judge(found, None, now + 14_999, 0.0)) == "live"
    after = accepted(complete(found, fence(found), Result(exit_code=0), now, 0.0))
    assert (after.run.state, after.attempt.number, after.run.barriers) == ("succeeded", 1, 1)


def test_a_successor_with_the_journal_adopts_and_older_versions_are_fenced():
    found = running()
    heir = session(session_id="s2", generation=2, journal_revision=5)
    change = adopt(found, fence(found), heir, T0 + 5, LEASE_MS)
    after = accepted(change)
    lease = after.lease
    assert (lease.session_id, lease.session_generation, lease.journal_revision) == ("s2", 2, 5)
    assert (lease.version, lease.floor) == (found.lease.version + 1, found.lease.version + 1)
    assert lease.generation == found.lease.generation
    assert after.attempt.session_id == "s2"
    assert list(told(change)) == ["adopted"]
    assert refused(renew(after, fence(found), T0, LEASE_MS)) == "fenced"


@pytest.mark.parametrize("fields", [{"journal_id": "other"}, {"journal_revision": 0}])
def test_another_journal_or_an_older_copy_adopts_nothing(fields):
    found = running()
    assert refused(adopt(found, fence(found), session(**fields), T0, LEASE_MS)) == "journal"


def test_adoption_ends_unreachability():
    found = accepted(recovery.judge(running(), None, T0 + LEASE_MS, 0.0))
    assert accepted(adopt(found, fence(found), session(), T0, LEASE_MS)).run.unreachable_ms is None


def test_adoption_needs_the_token():
    found = running()
    assert refused(adopt(found, fence(found, token_digest="x"), session(), T0, LEASE_MS)) == "token"


@pytest.mark.parametrize("make", [claimed, started, running])
def test_neither_changes_where_the_attempt_stands(make):
    found = make()
    for answer in (
        renew(found, fence(found), T0, LEASE_MS),
        adopt(found, fence(found), session(), T0, LEASE_MS),
    ):
        after = accepted(answer)
        assert (after.run.state, after.attempt.status) == (found.run.state, found.attempt.status)
        assert replace(after.attempt, lease_version=0, session_id="") == replace(
            found.attempt, lease_version=0, session_id=""
        )
