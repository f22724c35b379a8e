"""Sessions: the right of one process to pull work under a name, and nothing more."""

from __future__ import annotations

import pytest

from qinglong.domain import states
from qinglong.domain.records import Session, Worker
from qinglong.domain.sessions import (
    Introduction,
    claims,
    faltered,
    heartbeat,
    on_probation,
    proved,
    pull,
    register,
    transition,
)
from qinglong.limits import PROBATION_AFTER, PROBATION_PAUSE_MAX_MS, PROBATION_PAUSE_MS
from support.builders import LEASE_MS, refused, session
from support.clock import T0


def hello(session_id="new", journal="w1-j", revision=1):
    return Introduction(session_id, journal, revision, 4, "host", {"arch": "arm64"})


def made(answer):
    assert isinstance(answer, Session), answer
    return answer


def test_the_first_registration_makes_generation_one():
    new = made(register(None, "w1", hello(), T0, LEASE_MS))
    assert (new.generation, new.version, new.state, new.seq) == (1, 1, "online", 0)
    assert new.expires_ms == T0 + LEASE_MS
    assert new.capabilities == {"arch": "arm64"}


def test_a_registration_replaces_the_sessions_of_its_name():
    old = session(seq=9, generation=4)
    new = made(register(old, "w1", hello(), T0, LEASE_MS))
    assert (new.generation, new.session_id, new.seq) == (5, "new", 0)
    assert refused(heartbeat(new, old.session_id, 4, T0, LEASE_MS)) == "session_replaced"


def test_another_journal_under_a_live_name_is_refused():
    assert refused(register(session(), "w1", hello(journal="other"), T0, LEASE_MS)) == "name_in_use"


@pytest.mark.parametrize("old", [session(state="offline"), session(expires_ms=T0)])
def test_another_journal_may_take_a_name_that_nobody_uses(old):
    """Case 10: what its former owner still holds is judged by the Leases, not by the name."""
    assert made(register(old, "w1", hello(journal="other"), T0, LEASE_MS)).generation == 2


def test_a_heartbeat_needs_the_newest_process_of_the_name():
    now = session(generation=2)
    assert refused(heartbeat(None, "x", 1, T0, LEASE_MS)) == "session_unknown"
    assert refused(heartbeat(now, "other", 2, T0, LEASE_MS)) == "session_replaced"
    assert refused(heartbeat(now, now.session_id, 1, T0, LEASE_MS)) == "session_replaced"


def test_a_heartbeat_stores_nothing_while_half_of_the_life_is_left():
    now = session(expires_ms=T0 + LEASE_MS)
    assert heartbeat(now, now.session_id, 1, T0, LEASE_MS) is now
    late = T0 + LEASE_MS // 2
    assert made(heartbeat(now, now.session_id, 1, late, LEASE_MS)).expires_ms == late + LEASE_MS
    gone = session(state="offline", expires_ms=T0)
    assert heartbeat(gone, gone.session_id, 1, T0, LEASE_MS) is gone


@pytest.mark.parametrize("state", ["draining", "offline"])
def test_who_drains_gets_nothing_new(state):
    assert refused(pull(session(state=state), None, 1, T0, LEASE_MS)) == "draining"


@pytest.mark.parametrize("cordon", ["cordoned", "draining"])
def test_whom_an_operator_cordoned_gets_nothing_new(cordon):
    assert refused(pull(session(), Worker("w1", cordon), 1, T0, LEASE_MS)) == "cordoned"
    assert made(pull(session(), Worker("w1"), 1, T0, LEASE_MS)).seq == 1


def test_an_older_or_repeated_pull_grants_nothing():
    now = made(pull(session(seq=3), None, 7, T0 + 5, LEASE_MS))
    assert (now.seq, now.version, now.expires_ms) == (7, 2, T0 + 5 + LEASE_MS)
    for seq in (7, 6, 3, 0, -1):
        assert refused(pull(now, None, seq, T0, LEASE_MS)) == "seq"


def test_offers_that_come_back_in_a_row_put_a_worker_on_probation():
    """It gets one at a time, with growing pauses; an Attempt that ran takes it off."""
    now = session()
    for number in range(1, PROBATION_AFTER):
        now = faltered(now, T0)
        assert (now.failures, on_probation(now)) == (number, False)
    assert claims(now, 8) == 8
    pauses = []
    for _ in range(12):
        now = faltered(now, T0)
        assert claims(now, 8) == 1
        pauses.append(now.paused_until_ms - T0)
        assert refused(pull(now, None, 9, now.paused_until_ms - 1, LEASE_MS)) == "probation"
        assert made(pull(now, None, 9, now.paused_until_ms, LEASE_MS)).seq == 9
    assert pauses == sorted(pauses)
    assert (pauses[0], pauses[-1]) == (PROBATION_PAUSE_MS, PROBATION_PAUSE_MAX_MS)
    again = made(register(now, "w1", hello(), T0, LEASE_MS))
    assert on_probation(again), "a restart proves nothing"
    free = proved(now)
    assert (free.failures, free.paused_until_ms, claims(free, 8)) == (0, 0, 8)
    assert proved(free) is free


@pytest.mark.parametrize("before", states.SESSION)
@pytest.mark.parametrize("after", [*states.SESSION, "gone"])
def test_a_session_never_leaves_its_table(before, after):
    answer = transition(session(state=before), "w1-s1", 1, after)
    if before == after or after in states.SESSION[before]:
        assert (made(answer).state, made(answer).version) == (after, 2)
    else:
        assert refused(answer) == "unlawful"


def test_a_replaced_process_does_not_change_the_session():
    now = session(generation=2)
    assert refused(transition(now, "w1-s1", 1, "offline")) == "session_replaced"
    assert refused(transition(now, "other", 2, "offline")) == "session_replaced"
    assert refused(transition(None, "other", 2, "offline")) == "session_unknown"


def test_a_process_that_is_newer_than_the_session_on_record_registers_again():
    """Case 10: the row was removed, or the ledger restored; nobody has taken the name."""
    assert refused(heartbeat(session(generation=1), "mine", 2, T0, LEASE_MS)) == "session_unknown"
