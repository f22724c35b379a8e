"""Sessions: the right of one process to pull work under a name, and nothing more."""

from __future__ import annotations

import pytest

from qinglong.domain import states
from qinglong.domain.records import Session
from qinglong.domain.sessions import Introduction, pull, register, transition
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
    assert refused(pull(new, old.session_id, 4, 10, T0, LEASE_MS)) == "session_unknown"


def test_another_journal_under_a_live_name_is_refused():
    assert refused(register(session(), "w1", hello(journal="other"), T0, LEASE_MS)) == "name_in_use"


@pytest.mark.parametrize("old", [session(state="offline"), session(expires_ms=T0)])
def test_another_journal_may_take_a_name_that_nobody_uses(old):
    """Case 10: what its former owner still holds is judged by the Leases, not by the name."""
    assert made(register(old, "w1", hello(journal="other"), T0, LEASE_MS)).generation == 2


def test_a_pull_needs_the_newest_process_of_the_name():
    now = session(generation=2)
    assert refused(pull(None, "x", 1, 1, T0, LEASE_MS)) == "session_unknown"
    assert refused(pull(now, "other", 2, 1, T0, LEASE_MS)) == "session_unknown"
    assert refused(pull(now, now.session_id, 1, 1, T0, LEASE_MS)) == "session_replaced"


@pytest.mark.parametrize("state", ["draining", "offline"])
def test_who_drains_gets_nothing_new(state):
    assert refused(pull(session(state=state), "w1-s1", 1, 1, T0, LEASE_MS)) == "draining"


def test_an_older_or_repeated_pull_grants_nothing():
    now = made(pull(session(seq=3), "w1-s1", 1, 7, T0 + 5, LEASE_MS))
    assert (now.seq, now.version, now.expires_ms) == (7, 2, T0 + 5 + LEASE_MS)
    for seq in (7, 6, 3, 0, -1):
        assert refused(pull(now, "w1-s1", 1, seq, T0, LEASE_MS)) == "seq"


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
    assert refused(transition(now, "other", 2, "offline")) == "session_unknown"
    assert refused(transition(None, "other", 2, "offline")) == "session_unknown"
