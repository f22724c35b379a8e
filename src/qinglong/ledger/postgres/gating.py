"""Second part of a transaction, where limits matter: the gates, locked after the Runs, and who stands at them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from qinglong.domain.admission import gate_keys as gates_of_revision
from qinglong.domain.change import Draft
from qinglong.domain.gates import WAITS, overlap_key
from qinglong.domain.records import Gate
from qinglong.ledger.port import Keys
from qinglong.ledger.postgres.reading import aggregates_of
from qinglong.ledger.postgres.statements import Db, send


def gate(db: Db, wanted: Sequence[Keys], drafts: Sequence[Draft]) -> list[str]:
    """Lock and load the gates that these members may move; Runs that must be waited for are returned.

    They stand at a gate whose occupants matter (``overlap: replace``) and somebody else works on them: the
    transaction is begun again with them among the Runs that are locked first.
    """
    movers = [(keys, draft) for keys, draft in zip(wanted, drafts, strict=True) if _moves(keys)]
    if not movers:
        return []
    base = drafts[0]
    heads = {
        task_id: found for task_id, found in base.tasks.items() if any(not keys.project for keys, _ in movers)
    }
    named = {key for keys, _ in movers for key in keys.gates}
    named |= {key for task, spec in heads.values() for key in gates_of_revision(task, spec)}
    leaving: dict[str, int] = {}
    if any(keys.frees for keys, _ in movers):
        for found in base.loaded.values():
            for key in found.run.gates:
                leaving[key] = leaving.get(key, 0) + 1
    keys_of_all = named | leaving.keys()
    if not keys_of_all:
        return []
    _load(db, base, keys_of_all)
    members = any(keys.members for keys, _ in movers)
    replacing = {overlap_key(task.task_id) for task, spec in heads.values() if spec.overlap.kind == "replace"}
    needed: list[str] = []
    hoped: list[str] = []
    for key, found_gate in base.gates.items():
        if members or key in replacing:
            needed += [*found_gate.occupants, *found_gate.waiting]
        elif leaving.get(key):
            hoped += found_gate.waiting[: leaving[key] + max(found_gate.room, 0)]
    missed = _load_standing(db, base, needed, hoped)
    now = send(db, "clock/now").fetchall()[0][0]
    for draft in drafts:
        draft.now_ms = now
    return missed


def _moves(keys: Keys) -> bool:
    return bool(keys.frees or keys.gates or keys.tasks or keys.triggers)


def _load(db: Db, base: Draft, keys: Iterable[str]) -> None:
    names = sorted(keys)
    send(db, "lock/names", [f"gate:{key}" for key in names])
    _read(base, send(db, "place/load", names).fetchall())


def _read(base: Draft, found: Iterable[tuple[object, ...]]) -> None:
    inside: dict[str, list[str]] = {}
    waiting: dict[str, list[str]] = {}
    capacity: dict[str, int] = {}
    for key, places, waits, run_id in found:
        capacity[str(key)] = int(str(places))
        if run_id is not None:
            (waiting if waits == WAITS else inside).setdefault(str(key), []).append(str(run_id))
    for key, places in capacity.items():
        base.gates[key] = Gate(key, places, tuple(inside.get(key, ())), tuple(waiting.get(key, ())))


def _load_standing(db: Db, base: Draft, needed: Iterable[str], hoped: Iterable[str]) -> list[str]:
    """Load Runs that stand at the gates, and the gates that they may pass on to; those that have to be waited for.

    One that is only hoped for and was missed stays where it is: the retry step's sweep finds it.
    """
    needed = [run_id for run_id in needed if run_id not in base.loaded]
    wanted = [run_id for run_id in dict.fromkeys([*needed, *hoped]) if run_id not in base.loaded]
    if wanted:
        tried = send(db, "lock/try_runs", wanted)
        read = send(db, "run/load", wanted)
        got = {row[0] for row in tried.fetchall()}
        missed = [run_id for run_id in needed if run_id not in got]
        if missed:
            return missed
        standing = {k: v for k, v in aggregates_of(read.fetchall()).items() if k in got}
        base.loaded.update(standing)
        base.aggregates.update(standing)
    # A Run that moves may pass on to gates that no key named: its revision's group.
    onward = {key for found in base.loaded.values() for key in found.run.gates} - base.gates.keys()
    if onward:
        tried = send(db, "lock/try_names", [f"gate:{key}" for key in sorted(onward)])
        read = send(db, "place/load", sorted(onward))
        got = {str(row[0]).removeprefix("gate:") for row in tried.fetchall()}
        _read(base, [row for row in read.fetchall() if row[0] in got])
        lacking = onward - got
        for run_id in [k for k, v in base.loaded.items() if lacking.intersection(v.run.gates)]:
            if run_id in wanted:  # cannot be moved now
                del base.loaded[run_id], base.aggregates[run_id]
    return []
