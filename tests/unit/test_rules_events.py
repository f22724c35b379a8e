"""Events: each says exactly what is needed to tell and to explain what happened (I1, I9), and nothing empty."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from qinglong.domain import activation, ending, recovery, renewal, retrying, returning
from qinglong.domain.admission import admit, pass_gate
from qinglong.domain.change import Aggregate, Change, event
from qinglong.domain.completion import Result, complete
from qinglong.domain.dispatch import grant
from qinglong.domain.gates import group_key, overlap_key
from qinglong.domain.records import Evidence, Gate
from qinglong.errors import Damaged
from qinglong.limits import RETURNS_MAX
from support.builders import (
    LEASE_MS,
    accepted,
    admitted,
    claimed,
    draft,
    fence,
    queue,
    refused,
    retry,
    run_id,
    running,
    session,
    spec,
    started,
    told,
    want,
    wish,
)
from support.clock import T0

LATE = T0 + 2 * LEASE_MS


def under(**fields):
    return running(started(claimed(admitted(spec(**fields)))))


def proof(found, answer="not_running", proof="tree_gone", detail="", **fields):
    lease = found.lease
    made = Evidence("", "", 1, answer, "attestation", T0, detail, proof, lease.generation, lease.version)
    return replace(made, **fields)


def test_admitted():
    change = admit(draft(spec()), wish(spec(), cause="cron", scheduled_ms=T0 - 2_000, by="ann"))
    assert told(change)["admitted"] == {
        "task": "backup",
        "revision": 1,
        "cause": "cron",
        "scheduled_ms": T0 - 2_000,
        "late_ms": 2_000,
        "by": "ann",
    }


def test_admitted_and_held():
    of = spec(overlap=queue(1))
    found = draft(of, running(started(claimed(admitted(of)))))
    data = told(admit(found, wish(of, 2)))["admitted"]
    assert data == {
        "task": "backup",
        "revision": 1,
        "cause": "manual",
        "held_by": "overlap",
        "gate": overlap_key("task-backup"),
        "waits_for": run_id(1),
    }


def test_held_and_released():
    of = spec(overlap=queue(1), concurrency="db")
    task, group = overlap_key("task-backup"), group_key("default", "db")
    waiting = admitted(of, 2)
    waiting = replace(waiting, run=replace(waiting.run, state="created", held_by="overlap"))
    full = draft(of, waiting, gates={task: Gate(task, 1), group: Gate(group, 1, (run_id(9),))})
    assert told(pass_gate(full, waiting, task)) == {"held": {"held_by": "concurrency", "gate": group}}
    free = draft(of, waiting)
    assert told(pass_gate(free, waiting, task)) == {"released": {"gate": task}}


def test_offered():
    change = grant(admitted(), session("w7"), want(), 3, T0, LEASE_MS)
    assert told(change) == {"offered": {"attempt": 1, "worker": "w7", "generation": 1}}


def test_starting_and_running():
    found = claimed(admitted(spec(timeout_ms=500)))
    change = activation.starting(found, fence(found), T0, LEASE_MS)
    assert told(change) == {"starting": {"attempt": 1, "timeout_at_ms": T0 + 500}}
    found = started()
    change = activation.running(found, fence(found), T0, LEASE_MS, {"pid": 7})
    assert told(change) == {"running": {"attempt": 1, "pid": 7}}


def test_completed():
    found = running()
    result = Result(exit_code=3, log_bytes=9, log_dropped=4, leftovers=2, stopped_by="shutdown")
    change = complete(found, fence(found), result, T0, 0.0)
    assert told(change) == {
        "completed": {
            "attempt": 1,
            "status": "failed",
            "reason": "stopped: shutdown",
            "exit_code": 3,
            "stopped_by": "shutdown",
            "leftovers": 2,
            "log_bytes": 9,
            "log_dropped": 4,
        }
    }
    after = accepted(change)
    for one in (after.attempt, after.run):
        assert (one.exit_code, one.signal, one.reason) == (3, None, "stopped: shutdown")
    change = complete(found, fence(found), Result(exit_code=0), T0, 0.0)
    wanted = {"attempt": 1, "status": "succeeded", "exit_code": 0, "log_bytes": 0}
    assert told(change) == {"completed": wanted}
    change = complete(found, fence(found), Result(signal=9), T0, 0.0)
    assert (accepted(change).attempt.signal, accepted(change).run.signal) == (9, 9)


def test_completed_under_an_intent_names_it():
    found = accepted(ending.cancel(running(), "ann", "", T0))
    change = complete(found, fence(found), Result(signal=15, stopped_by="cancel"), T0, 0.0)
    assert told(change)["completed"]["final"] == "cancel"


def test_retry_scheduled_and_retried():
    found = under(retry=retry(3, initial_ms=4_000))
    change = complete(found, fence(found), Result(exit_code=1), T0, 0.0)
    assert told(change)["retry_scheduled"] == {
        "cause": "failed",
        "next_attempt_ms": T0 + 4_000,
        "barriers": 1,
        "max_attempts": 3,
    }
    assert told(retrying.next_attempt(accepted(change), T0 + 4_000)) == {"retried": {"attempt": 2}}


@pytest.mark.parametrize(
    ("returns", "undeliverable"), [(0, False), (RETURNS_MAX - 2, False), (RETURNS_MAX - 1, True)]
)
def test_redeliveries_count_and_say_when_nobody_seems_able(returns, undeliverable):
    extra = {"undeliverable": True} if undeliverable else {}
    found = claimed()
    found = replace(found, run=replace(found.run, returns=returns))
    change = returning.hand_back(found, fence(found), "declined", T0, 0.0)
    run = accepted(change).run
    assert told(change)["returned"] == {
        "attempt": 1,
        "reason": "declined",
        "returns": returns + 1,
        "available_ms": run.available_ms,
        **extra,
    }
    gone = started()
    gone = replace(gone, run=replace(gone.run, returns=returns))
    lost = accepted(recovery.judge(gone, proof(gone, "never_began", "not_begun"), T0, 0.0))
    change = retrying.settle_lost(lost, T0, 0.0)
    assert told(change)["retry_scheduled"] == {
        "cause": "never_started",
        "next_attempt_ms": accepted(change).run.available_ms,
        "returns": returns + 1,
        **extra,
    }


def test_an_orderly_return_has_no_pause_to_tell():
    found = claimed()
    change = returning.hand_back(found, fence(found), "shutdown", T0, 0.0)
    assert told(change)["returned"] == {"attempt": 1, "reason": "shutdown"}


def test_lost_names_its_evidence():
    found = running()
    change = recovery.judge(found, proof(found, detail="no such process"), T0, 0.0)
    assert told(change) == {
        "lost": {
            "attempt": 1,
            "reason": "not_running",
            "provider": "attestation",
            "proof": "tree_gone",
            "detail": "no such process",
            "evidence_ms": T0,
        }
    }
    found = started()
    change = recovery.judge(found, proof(found, "never_began", "not_begun", "no go byte"), T0, 0.0)
    assert told(change)["lost"] == {
        "attempt": 1,
        "reason": "never_started",
        "provider": "attestation",
        "proof": "not_begun",
        "detail": "no go byte",
    }


def test_unreachable_names_the_worker_and_what_it_said():
    assert told(recovery.judge(running(), None, LATE, 0.0)) == {"unreachable": {"attempt": 1, "worker": "w1"}}
    found = running()
    change = recovery.judge(found, proof(found, "unknown", "", "cannot tell"), LATE, 0.0)
    assert told(change)["unreachable"] == {
        "attempt": 1,
        "worker": "w1",
        "answer": "unknown",
        "detail": "cannot tell",
    }


def test_reachable_and_adopted():
    found = accepted(recovery.judge(running(), None, LATE, 0.0))
    change = renewal.renew(found, fence(found), LATE, LEASE_MS)
    assert told(change) == {"reachable": {"since_ms": LATE, "worker": "w1"}}
    change = renewal.adopt(found, fence(found), session(session_id="s9"), LATE, LEASE_MS)
    assert told(change) == {"adopted": {"attempt": 1, "worker": "w1", "session": "s9"}}


def test_cancelled_and_timed_out_before_the_start():
    change = ending.cancel(admitted(), "ann", "wrong day", T0)
    assert told(change) == {"cancelled": {"reason": "wrong day", "by": "ann", "unstarted": True}}
    assert accepted(change).run.intent.kind == "cancel"
    found = admitted(spec(start_within_ms=1))
    change = ending.expire(found, T0 + 1)
    assert told(change) == {"timed_out": {"reason": "start_within", "unstarted": True}}
    assert (accepted(change).run.intent.kind, accepted(change).run.intent.reason) == (
        "deadline",
        "start_within",
    )


def test_what_was_asked_of_a_started_run():
    found = under(deadline_ms=1)
    assert told(ending.cancel(found, "ann", "wrong day", T0)) == {
        "cancel_requested": {"by": "ann", "reason": "wrong day", "attempt": 1}
    }
    assert told(ending.expire(found, T0 + 1)) == {"deadline_requested": {"reason": "deadline", "attempt": 1}}


def test_a_lost_run_that_is_not_retried_says_why():
    found = under()
    lost = accepted(recovery.judge(found, proof(found), T0, 0.0))
    assert told(retrying.settle_lost(lost, T0, 0.0)) == {"failed": {"reason": "lost_retry_disabled"}}


def test_values_that_are_none_are_left_out_and_those_that_are_empty_are_kept():
    run, made = event(admitted().run, T0 + 1, "some", a=None, b="", c=0, d=False)
    assert made.data == {"b": "", "c": 0, "d": False}
    assert (made.run_id, made.version, made.at_ms, made.kind) == (run.run_id, run.version, T0 + 1, "some")
    assert run.version == admitted().run.version + 1


def test_a_draft_refuses_an_attempt_that_leaves_its_table():
    found = draft(spec(), running())
    now = found.get(run_id())
    run, made = event(now.run, T0, "some")
    torn = Aggregate(run, replace(now.attempt, status="starting"), now.lease)
    with pytest.raises(Damaged, match="from running to starting"):
        found.apply(Change(torn, (made,)))


def test_a_leased_attempt_is_not_granted_whatever_else_it_looks_like():
    torn = replace(admitted(), lease=claimed().lease)
    assert refused(grant(torn, session(), want(), 1, T0, LEASE_MS)) == "not_pristine"
