"""Settling: deadlines, then losses, then due retries, then held Runs whose gate has room."""

from __future__ import annotations

from msgspec.structs import replace

from qinglong.domain import recovery
from qinglong.domain.admission import admit
from qinglong.domain.completion import Result, complete
from qinglong.domain.gates import overlap_key
from qinglong.domain.records import Evidence
from qinglong.domain.settling import settle
from support.builders import (
    accepted,
    admitted,
    claimed,
    draft,
    fence,
    queue,
    refused,
    retry,
    running,
    spec,
    started,
    wish,
)
from support.clock import T0

GATE = overlap_key("task-backup")


def at(found, now_ms=T0):
    return draft(None, found, now_ms=now_ms)


def under(**fields):
    return running(started(claimed(admitted(spec(**fields)))))


def test_there_is_nothing_to_do_for_a_run_that_goes_its_way():
    for found in (admitted(), claimed(), started(), running()):
        assert refused(settle(at(found), found, 0.0)) == "nothing"


def test_a_deadline_comes_before_a_retry_that_is_due_as_well():
    found = under(deadline_ms=1_000, retry=retry(3))
    found = accepted(complete(found, fence(found), Result(exit_code=1), T0, 0.0))
    assert accepted(settle(at(found, T0 + 10**6), found, 0.0)).run.state == "timed_out"


def test_a_deadline_comes_before_a_loss():
    found = under(deadline_ms=1_000, safety="idempotent", retry=retry(3))
    proof = Evidence("", "", 1, "not_running", "x", T0, "", "tree_gone", 1, found.lease.version)
    gone = accepted(recovery.judge(found, proof, T0, 0.0))
    assert accepted(settle(at(gone, T0 + 1_000), gone, 0.0)).run.state == "timed_out"
    assert accepted(settle(at(gone, T0 + 999), gone, 0.0)).run.state == "retry_wait"


def test_a_retry_is_made_when_it_is_due_and_not_before():
    found = under(retry=retry(3, initial_ms=5_000))
    found = accepted(complete(found, fence(found), Result(exit_code=1), T0, 0.0))
    assert refused(settle(at(found, T0 + 4_999), found, 0.0)) == "not_yet"
    assert accepted(settle(at(found, T0 + 5_000), found, 0.0)).attempt.number == 2


def test_a_held_run_passes_when_its_gate_has_room():
    of = spec(overlap=queue(2))
    old = running(started(claimed(admitted(of))))
    work = draft(of, old)
    work.apply(admit(work, wish(of, 2)))
    held = next(found for found in work.aggregates.values() if found.run.held_by)
    assert refused(settle(work, held, 0.0)) == "nothing"
    work.gates[GATE] = replace(work.gates[GATE], occupants=())
    assert accepted(settle(work, held, 0.0)).run.state == "queued"
