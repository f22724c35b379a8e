"""Any ledger: what the keys of a transaction load, and nothing else."""

from __future__ import annotations

import pytest

from qinglong.domain.definitions import Overlap
from qinglong.domain.gates import group_key, overlap_key
from qinglong.domain.records import Evidence, Limit, Occurrence, RunKey, Trigger
from qinglong.errors import Damaged
from qinglong.ledger.port import Keys, Pull
from support.builders import queue, run_id, session, spec, task
from support.clock import T0
from support.stored import Bench

OTHER = spec("other", overlap=Overlap("allow"))


@pytest.fixture
def bench(store):
    made = Bench(store)
    yield made
    made.close()


def draft_of(bench, **keys):
    """What a transaction with these keys sees."""
    return bench.transact(Keys(**keys), lambda draft: draft)


def test_unknown_ids_are_simply_absent(bench):
    draft = draft_of(bench, runs=(run_id(9),), tasks=("none",), triggers=("none",), worker="none")
    assert draft.aggregates == {}
    assert draft.tasks == {}
    assert draft.triggers == {}
    assert draft.session is None


def test_a_run_is_loaded_with_its_newest_attempt_and_live_lease(bench):
    bench.define(OTHER)
    key = bench.admitted(of=OTHER)
    made = bench.claimed(key)
    assert draft_of(bench, runs=(key,)).get(key) == made
    bench.started(key)
    made = bench.ended(key)
    found = draft_of(bench, runs=(key,)).get(key)
    assert found == made
    assert found.lease is None


def test_a_run_without_its_attempt_is_damage(bench):
    bench.define(OTHER)
    key = bench.admitted(of=OTHER)
    bench.store.tamper("DELETE FROM attempts")
    with pytest.raises(Damaged) as caught:
        draft_of(bench, runs=(key,))
    assert caught.value.code == "attempt_missing"


def test_frees_loads_the_gates_and_as_many_waiters_as_could_be_promoted(bench):
    of = spec("queued", overlap=queue(9), concurrency="group")
    bench.define(of)
    ids = [bench.admitted(number, of) for number in range(1, 6)]
    gate, group = overlap_key(task(of).task_id), group_key("default", "group")
    draft = draft_of(bench, runs=(ids[0],), frees=True)
    assert set(draft.gates) == {gate, group}
    assert (draft.gates[gate].occupants, draft.gates[gate].waiting) == ((ids[0],), tuple(ids[1:]))
    assert list(draft.aggregates) == ids[:2]
    assert draft_of(bench, runs=(ids[0],)).gates == {}


def test_gates_loads_capacity_occupants_and_with_members_everyone(bench):
    of = spec("grouped", overlap=Overlap("allow"), concurrency="group")
    bench.define(of)
    group = group_key("default", "group")
    bench.transact(Keys(), lambda draft: draft.puts.append(Limit(group, 2)))
    ids = [bench.admitted(number, of) for number in range(1, 5)]
    draft = draft_of(bench, gates=(group,))
    assert draft.gates[group].capacity == 2
    assert (draft.gates[group].occupants, draft.gates[group].waiting) == (tuple(ids[:2]), tuple(ids[2:]))
    assert draft.aggregates == {}
    assert list(draft_of(bench, gates=(group,), members=True).aggregates) == ids
    assert draft_of(bench, gates=("group:default:new",)).gates["group:default:new"].room == 1


def test_triggers_tasks_and_projects_load_definitions_with_their_specs(bench):
    one, two = spec("one"), spec("two")
    bench.define(one, two)
    made = Trigger("trigger-1", task(one).task_id, "cron", b"{}", T0, T0, T0 + 5)
    bench.transact(Keys(), lambda draft: draft.puts.append(made))
    assert draft_of(bench, tasks=(task(two).task_id,)).tasks == {task(two).task_id: (task(two), two)}
    draft = draft_of(bench, triggers=("trigger-1",))
    assert draft.triggers == {"trigger-1": made}
    assert draft.tasks == {task(one).task_id: (task(one), one)}
    draft = draft_of(bench, project="default")
    assert {head.name: of for head, of in draft.tasks.values()} == {"one": one, "two": two}
    assert draft.triggers == {"trigger-1": made}
    assert draft_of(bench, project="elsewhere").tasks == {}


def test_held_loads_the_offers_of_the_workers_live_leases(bench):
    bench.define(OTHER)
    ids = [bench.admitted(number, OTHER) for number in (1, 2, 3)]
    bench.claimed(ids[0], 1)
    bench.claimed(ids[1], 2, session_id="w1-s2")
    bench.claimed(ids[2], 3, worker="w2")
    assert draft_of(bench, worker="w1", pull=Pull(16)).held == {"offer-1", "offer-2"}
    assert draft_of(bench, worker="w1").held == set()
    assert [lease.run_id for lease in bench.go(bench.ledger.leases_of("w1"))] == ids[:2]
    bench.through(bench.admitted(4, OTHER), number=4)
    assert draft_of(bench, worker="w1", pull=Pull(16)).held == {"offer-1", "offer-2"}


def test_a_key_finds_the_run_that_it_made(bench):
    bench.transact(Keys(), lambda draft: draft.puts.append(RunKey("default", "k", "digest", "run")))
    assert draft_of(bench, run_key=("default", "k")).run_key == ("digest", "run")
    assert draft_of(bench, run_key=("default", "l")).run_key is None
    assert draft_of(bench, run_key=("other", "k")).run_key is None


def test_specs_are_those_that_were_pinned(bench):
    bench.define(OTHER)
    key = (task(OTHER).task_id, 1)
    found = bench.go(bench.ledger.specs((key, ("none", 1))))
    assert list(found) == [key]


def test_the_newest_evidence_of_a_provider_counts_by_the_lease_it_speaks_about(bench):
    bench.define(OTHER)
    key = bench.admitted(of=OTHER)

    def put(generation, version, answer, provider="attestation"):
        row = Evidence(key, "", 1, answer, provider, T0, generation=generation, version=version)
        bench.transact(Keys(), lambda draft: draft.puts.append(row))

    put(1, 5, "running")
    put(1, 4, "not_running")
    put(2, 1, "unknown")
    put(1, 9, "not_running")
    put(1, 1, "running", "operator")
    found = draft_of(bench, runs=(key,), evidence=True).evidence[key]
    assert [(one.provider, one.answer) for one in found] == [
        ("operator", "running"),
        ("attestation", "unknown"),
    ]


def test_evidence_is_loaded_only_when_it_is_asked_for(bench):
    bench.define(OTHER)
    key = bench.admitted(of=OTHER)
    bench.transact(Keys(), lambda draft: draft.puts.append(Evidence(key, "", 1, "running", "x", T0)))
    assert draft_of(bench, runs=(key,)).evidence == {}
    assert [one.provider for one in draft_of(bench, runs=(key,), evidence=True).evidence[key]] == ["x"]


def test_a_session_is_loaded_by_its_workers_name(bench):
    def put(draft):
        draft.session = session("w1", capabilities={"gpu": "yes"})

    bench.transact(Keys(worker="w1"), put)
    assert draft_of(bench, worker="w1").session == session("w1", capabilities={"gpu": "yes"})
    assert draft_of(bench, worker="w2").session is None


def test_occurrences_tell_which_were_answered_before(bench):
    bench.transact(Keys(), lambda draft: draft.puts.append(Occurrence("t", "1", 1, 1, 1, None, "missed")))
    assert draft_of(bench, occurrences=(("t", "1"), ("t", "2"), ("u", "1"))).occurred == {("t", "1")}


def test_fences_are_loaded_only_to_be_drawn_and_never_repeat(bench):
    def draw(draft):
        return [draft.next_fence() for _ in range(3)]

    assert bench.transact(Keys(fences=True), draw) == [1, 2, 3]
    assert bench.transact(Keys(fences=True), draw) == [4, 5, 6]
    assert draft_of(bench).fence == 0
