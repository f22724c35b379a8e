"""A Run's way through the ledger, admission to completion: one by one through the doors, or in batches."""

from __future__ import annotations

from bench.rig import Caller, Rig, claim, report
from qinglong.control.reports import fence_of
from qinglong.domain import activation, completion, dispatch, sessions
from qinglong.domain.admission import Admission, promote
from qinglong.domain.change import Change, Draft
from qinglong.domain.dispatch import Want
from qinglong.domain.occurring import place
from qinglong.domain.records import Session
from qinglong.ledger.port import Keys
from qinglong.wire.worker import Report


async def admit(rig: Rig, names: tuple[str, ...]) -> tuple[str, ...]:
    """One transaction: a Run of each task; as the control plane and the trigger step do it."""
    ids = {rig.task_ids[name]: rig.ids.new() for name in names}

    def decide(draft: Draft) -> None:
        for task_id, run_id in ids.items():
            head, spec = draft.tasks[task_id]
            assert isinstance(place(draft, Admission(run_id, head, spec, "manual", by="bench")), Change)
        promote(draft)

    await rig.ledger.transact(Keys(tasks=tuple(ids)), decide)
    return tuple(ids.values())


async def pulled(rig: Rig, caller: Caller, name: str) -> None:
    """One Run through the doors, a transaction a step, as a worker that is alone would have it."""
    await admit(rig, (name,))
    want, token = caller.want()
    reply = await rig.control.workers.sync(caller.name, caller.request((want,)), caller.poke)
    await _reported(rig, caller, reply.offers[0].run_id, want, token)


async def granted(rig: Rig, caller: Caller, name: str) -> None:
    """One Run, a transaction a step; the Lease is granted on this caller's own Run, whoever else is there."""
    (run_id,) = await admit(rig, (name,))
    want, token = caller.want()
    await grant(rig, caller, {run_id: (want, token)})
    await _reported(rig, caller, run_id, want, token)


async def _reported(rig: Rig, caller: Caller, run_id: str, want: Want, token: str) -> None:
    sync = rig.control.workers.sync
    starting = (report("starting", claim(run_id, want, token, 1)),)
    reply = await sync(caller.name, caller.request(reports=starting), caller.poke)
    ends = claim(run_id, want, token, reply.answers[0].version)
    last = (report("running", ends), report("completed", ends))
    reply = await sync(caller.name, caller.request(reports=last), caller.poke)
    assert [answer.outcome for answer in reply.answers] == ["ok", "ok"]


async def batch(rig: Rig, caller: Caller, names: tuple[str, ...]) -> None:
    """A Run of each task through four transactions, by the same rules and the same ledger.

    A worker's sync takes at most 8 offers; the ledger itself knows no such limit, so the rules are called here.
    """
    run_ids = await admit(rig, names)
    wants = {run_id: caller.want() for run_id in run_ids}
    await grant(rig, caller, wants)
    versions = await judge(rig, caller, wants, "starting", dict.fromkeys(run_ids, 1))
    await judge(rig, caller, wants, "running completed", versions)


async def grant(rig: Rig, caller: Caller, wants: dict[str, tuple[Want, str]]) -> None:
    """One transaction: a Lease for each Run. ``control/offers.py`` without its page."""
    request = caller.request()
    times = rig.deps.times

    def decide(draft: Draft) -> None:
        assert draft.session is not None
        session = sessions.pull(draft.session, None, request.seq, draft.now_ms, times.session_ms)
        assert isinstance(session, Session)
        for run_id, (want, _) in wants.items():
            change = dispatch.grant(
                draft.aggregates[run_id], session, want, draft.next_fence(), draft.now_ms, times.lease_ms
            )
            assert isinstance(change, Change)
            draft.apply(change)
        draft.session = session

    await rig.ledger.transact(Keys(worker=caller.name, runs=tuple(wants), fences=True), decide)


async def judge(
    rig: Rig, caller: Caller, wants: dict[str, tuple[Want, str]], kinds: str, versions: dict[str, int]
) -> dict[str, int]:
    """One transaction: the same reports about each Run. ``control/reports.py`` without its answers."""
    said = [
        report(kind, claim(run_id, want, token, versions[run_id]))
        for run_id, (want, token) in wants.items()
        for kind in kinds.split()
    ]

    def decide(draft: Draft) -> dict[str, int]:
        for one in said:
            change = _rule(rig, draft, caller.name, one)
            assert isinstance(change, Change)
            draft.apply(change)
        promote(draft)
        leases = {run_id: draft.aggregates[run_id].lease for run_id in wants}
        return {run_id: lease.version for run_id, lease in leases.items() if lease is not None}

    return await rig.ledger.transact(Keys(runs=tuple(sorted(wants)), frees="completed" in kinds), decide)


def _rule(rig: Rig, draft: Draft, worker: str, said: Report) -> object:
    fence, found = fence_of(worker, said), draft.get(said.claim.run_id)
    now, life = draft.now_ms, rig.deps.times.lease_ms
    if said.kind == "starting":
        return activation.starting(found, fence, now, life)
    if said.kind == "running":
        return activation.running(found, fence, now, life, said.facts)
    assert said.result is not None
    return completion.complete(found, fence, said.result, now, rig.deps.rng.fraction())
