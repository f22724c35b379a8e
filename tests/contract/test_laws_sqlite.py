"""The laws over the SQLite ledger, and that every derived row is what its Run says."""

from __future__ import annotations

import asyncio
import tempfile
from collections import Counter
from pathlib import Path

import apsw
import pytest

from qinglong.domain.change import Aggregate
from qinglong.domain.gates import places
from qinglong.domain.index import due_ms, queue_row
from qinglong.domain.records import AttemptRef
from qinglong.ledger.sqlite import rows
from support.laws import Facts, Laws, walk
from support.store import Store


class SqliteLaws(Laws):
    def make(self, clock):
        self.folder = tempfile.TemporaryDirectory()
        self.loop = asyncio.new_event_loop()
        store = Store(Path(self.folder.name), clock, durable=False)
        self.db = apsw.Connection(str(store.path), flags=apsw.SQLITE_OPEN_READONLY)
        return store

    def drive(self, work):
        return self.loop.run_until_complete(work)

    def end(self):
        self.db.close()
        self.store.close()
        self.loop.close()
        self.folder.cleanup()

    def read(self, statement):
        return self.db.execute(statement).fetchall()

    def facts(self):
        attempts = {}
        for row in self.read("SELECT * FROM attempts"):
            attempt = rows.attempt_of(row)
            attempts[attempt.ref] = attempt
        leases = {}
        for row in self.read("SELECT * FROM leases"):
            lease = rows.lease_of(row)
            leases[lease.ref] = lease
        found = {}
        for row in self.read("SELECT * FROM runs"):
            run = rows.run_of(row)
            ref = AttemptRef(run.run_id, "", run.attempt)
            found[run.run_id] = Aggregate(run, attempts[ref], leases.pop(ref, None))
        assert not leases, "a Lease of no newest Attempt"
        events = {}
        for row in self.read("SELECT * FROM events ORDER BY run_id, version"):
            events.setdefault(row[0], []).append(rows.event_of(row))
        late = Counter(self.read("SELECT run_id, step, attempt FROM late_evidence"))
        return Facts(found, attempts, events, dict(late))

    def left_waiting(self, key, runs):
        """Only a Run of a gate that nobody had named: the sweep knows it, and was asked for."""
        assert self.drive(self.store.ledger.due()).retry
        assert (
            self.plane.control.cadence._due_ms <= self.clock.wall_ms() or self.trace[-1] == "the_clock_steps"
        )
        self.drive(self.plane.settle())

    def extra(self, facts):
        facts = self.facts()  # a sweep may have run since
        runs = [found.run for found in facts.aggregates.values()]
        stand = sorted((key, kind, run.run_id) for run in runs for key, kind in places(run))
        assert self.read("SELECT gate, waits, run_id FROM places ORDER BY 1, 2, 3") == stand
        queue = sorted(tuple(row) for run in runs if (row := queue_row(run)) is not None)
        assert self.read("SELECT * FROM queue ORDER BY 1, 2") == queue
        due = sorted((run.run_id, moment) for run in runs if (moment := due_ms(run)) is not None)
        assert self.read("SELECT run_id, due_ms FROM due ORDER BY 1") == due
        answered = Counter(run_id for (run_id,) in self.read("SELECT run_id FROM occurrences") if run_id)
        fired = [run.run_id for run in runs if run.trigger_id is not None]
        assert answered == Counter(fired), "I6: one occurrence, one Run"
        tries = [attempt.fence for attempt in facts.attempts.values() if attempt.fence]
        assert len(tries) == len(set(tries)), "fence numbers are never handed out twice"


@pytest.mark.parametrize("first", range(10_000, 10_032, 8))
def test_random_walks_over_sqlite_keep_every_law(first):
    for seed in range(first, first + 8):
        walk(SqliteLaws(), seed, 100)
