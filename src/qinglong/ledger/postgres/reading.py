"""First part of a transaction: lock in the one order, then read (design section 5, I11).

Everything goes down one pipeline. What several members of a commit group name is locked and read once. The order is
the same in every transaction of every replica: Runs by the hash of their id, then names by their hash (Sessions,
triggers, idempotency keys), then the definitions, then gates; whatever is wanted later is only *tried*.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice

from qinglong.domain import definitions
from qinglong.domain.change import Aggregate, Draft
from qinglong.domain.records import Evidence, Session, Worker
from qinglong.errors import Damaged
from qinglong.ledger.port import Keys, Pull
from qinglong.ledger.postgres import rows
from qinglong.ledger.postgres.statements import Cursor, Db, send
from qinglong.limits import FENCE_BLOCK, OFFER_ROWS_CAP

_DEFINITIONS = "definitions"


class Reading:
    """Statements that were sent for these keys; ``drafts`` takes their rows."""

    def __init__(self, db: Db, wanted: Sequence[Keys], also: Iterable[str]) -> None:
        self._db = db
        self._wanted = wanted
        waits = rows.uuids([*also, *(run_id for keys in wanted if not keys.raced for run_id in keys.runs)])
        tries = rows.uuids(run_id for keys in wanted if keys.raced for run_id in keys.runs)
        self._tries = [run_id for run_id in tries if run_id not in waits]
        self._tried: Cursor | None = None
        self._lock(waits)
        self._workers = list(dict.fromkeys(keys.worker for keys in wanted if keys.worker))
        self._pulls = [(keys.worker, keys.pull) for keys in wanted if keys.pull is not None]
        self._sent: dict[str, Cursor] = {}
        self._run_keys: dict[tuple[str, str], Cursor] = {}
        self._read([*waits, *self._tries])

    def _lock(self, waits: list[str]) -> None:
        db, wanted = self._db, self._wanted
        send(db, "clock/begin")
        if waits:
            send(db, "lock/runs", waits)
        if self._tries:
            self._tried = send(db, "lock/try_runs", self._tries)
        names = {f"session:{keys.worker}" for keys in wanted if keys.worker}
        names |= {f"trigger:{trigger_id}" for keys in wanted for trigger_id in keys.triggers}
        names |= {"key:" + "\n".join(keys.run_key) for keys in wanted if keys.run_key is not None}
        if names:
            send(db, "lock/names", sorted(names))
        if any(keys.project for keys in wanted):
            send(db, "lock/names", [_DEFINITIONS])
        elif any(keys.tasks or keys.triggers for keys in wanted):
            send(db, "lock/share", _DEFINITIONS)

    def _read(self, run_ids: list[str]) -> None:
        wanted = self._wanted
        if run_ids:
            self._send("run/load", run_ids)
        if self._workers:
            self._send("session/get", self._workers)
            self._send("worker/get", self._workers)
        if self._pulls:
            self._read_pulls([pull for _, pull in self._pulls])
        triggers = sorted({trigger_id for keys in wanted for trigger_id in keys.triggers})
        if triggers:
            self._send("trigger/get", triggers)
            self._send("task/of_triggers", triggers)
        tasks = sorted({task_id for keys in wanted for task_id in keys.tasks})
        if tasks:
            self._send("task/load", tasks)
        project = next((keys.project for keys in wanted if keys.project), "")
        if project:
            self._send("task/of_project", project)
            self._send("trigger/of_project", project)
        asked = rows.uuids(run_id for keys in wanted if keys.evidence for run_id in keys.runs)
        if asked:
            self._send("evidence/list", asked)
        occurrences = sorted({pair for keys in wanted for pair in keys.occurrences})
        if occurrences:
            self._send(
                "occurrence/exists", rows.encoded([{"trigger_id": t, "key": k} for t, k in occurrences])
            )
        for keys in wanted:
            if keys.run_key is not None:
                self._run_keys[keys.run_key] = send(self._db, "run_key/get", *keys.run_key)
        self._send("clock/now")
        draws = sum(keys.fences for keys in wanted)
        if draws:
            self._send("fence/draw", draws)

    def _read_pulls(self, pulls: list[Pull]) -> None:
        self._send("lease/offers_of_workers", self._workers)
        again = sorted({offer_id for pull in pulls for offer_id in pull.wanted})
        if again:
            self._send("lease/again", self._workers, again)
        placements = sorted({placement for pull in pulls for placement in pull.placements})
        limit = min(sum(pull.limit for pull in pulls), OFFER_ROWS_CAP)
        self._send("queue/offer", placements, limit, limit)

    def _send(self, name: str, *values: object) -> None:
        self._sent[name] = send(self._db, name, *values)

    def _rows(self, name: str) -> list[tuple[object, ...]]:
        cursor = self._sent.get(name)
        return [] if cursor is None else cursor.fetchall()

    def drafts(self) -> list[Draft]:
        """A Draft for each of the keys; they share what they have in common. Raises ``Damaged``."""
        got = set() if self._tried is None else {row[0] for row in self._tried.fetchall()}
        missed = set(self._tries) - got
        loaded = {
            run_id: found
            for run_id, found in aggregates_of(self._rows("run/load")).items()
            if run_id not in missed
        }
        again = aggregates_of(self._rows("lease/again"))
        offered_rows = sorted(self._rows("queue/offer"), key=lambda row: (row[1], row[2]))
        offered = aggregates_of([row[2:] for row in offered_rows])
        base = Draft(0, {**loaded, **again, **offered}, {})
        self._definitions(base)
        base.occurred = {(str(row[0]), str(row[1])) for row in self._rows("occurrence/exists")}
        evidence: dict[str, list[Evidence]] = {}
        for row in self._rows("evidence/list"):
            evidence.setdefault(str(row[0]), []).append(rows.evidence_of(row))
        sessions = {row[0]: rows.session_of(row) for row in self._rows("session/get")}
        workers = {row[0]: Worker(*row) for row in self._rows("worker/get")}  # type: ignore[arg-type]
        held: dict[str, set[str]] = {}
        for worker, offer_id in self._rows("lease/offers_of_workers"):
            held.setdefault(str(worker), set()).add(str(offer_id))
        base.now_ms = int(self._sent["clock/now"].fetchall()[0][0])
        fences = iter([int(str(row[0])) - FENCE_BLOCK for row in self._rows("fence/draw")])
        drafts: list[Draft] = []
        for keys in self._wanted:
            draft = share(base, sessions.get(keys.worker))
            draft.worker = workers.get(keys.worker)
            draft.fence = next(fences) if keys.fences else 0
            if keys.evidence:
                draft.evidence = {run_id: tuple(evidence.get(run_id, ())) for run_id in keys.runs}
            if keys.run_key is not None:
                found = self._run_keys[keys.run_key].fetchone()
                draft.run_key = None if found is None else (found[0], found[1])
            if keys.pull is not None:
                draft.held = held.get(keys.worker, set())
                draft.again = tuple(
                    run_id
                    for run_id, one in again.items()
                    if one.lease is not None and one.lease.offer_id in keys.pull.wanted
                )
                allowed = set(keys.pull.placements)
                mine = (run_id for run_id, one in offered.items() if one.run.placement in allowed)
                draft.offered = tuple(mine if len(self._wanted) > 1 else islice(mine, keys.pull.limit))
            drafts.append(draft)
        return drafts

    def _definitions(self, base: Draft) -> None:
        for name in ("task/load", "task/of_triggers", "task/of_project"):
            for row in self._rows(name):
                task = rows.task_of(row[:-1])
                base.tasks[task.task_id] = (task, definitions.decode_cached(str(row[-1]).encode()))
        for name in ("trigger/get", "trigger/of_project"):
            for row in self._rows(name):
                trigger = rows.trigger_of(row)
                base.triggers[trigger.trigger_id] = trigger


def share(base: Draft, session: Session | None) -> Draft:
    """A Draft with its own Session and wishes; Runs, gates and definitions are one for the whole group."""
    draft = Draft(base.now_ms, {}, {}, session)
    draft.loaded, draft.aggregates, draft.gates = base.loaded, base.aggregates, base.gates
    draft.triggers, draft.tasks, draft.occurred = base.triggers, base.tasks, base.occurred
    draft.attempts, draft.events, draft.puts, draft.freed = base.attempts, base.events, base.puts, base.freed
    return draft


def aggregates_of(found: Iterable[tuple[object, ...]]) -> dict[str, Aggregate]:
    """Aggregates by Run id, in the order of the rows. Raises ``Damaged`` for a Run without its Attempt."""
    aggregates: dict[str, Aggregate] = {}
    for row in found:
        run, attempt, lease = rows.loaded_of(row)
        if attempt is None:
            raise Damaged("attempt_missing", f"run {run.run_id} has no attempt {run.attempt}")
        aggregates[run.run_id] = Aggregate(run, attempt, lease)
    return aggregates
