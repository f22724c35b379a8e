"""A crash before or after every transaction of a Run's life: the Run ends once, and nothing ran twice (I1, I3)."""

from __future__ import annotations

from collections import Counter

import pytest
from msgspec.structs import replace

from qinglong.domain.completion import Result
from qinglong.errors import QingLongError, Unavailable
from qinglong.limits import LEASE_MS, MINUTE, SECOND
from qinglong.wire.worker import Claim
from support.builders import every, retry, spec
from support.lab import Lab
from support.plane import Worker


class Crash(BaseException):
    """The server is gone; nothing that catches errors sees it."""


class Machine:
    """A worker's machine: its journal and its jobs outlive every crash of the server."""

    def __init__(self, lab):
        self.lab = lab
        self.claims: dict[str, Claim] = {}
        self.begun: Counter[tuple[str, int]] = Counter()
        self.ended: set[tuple[str, int]] = set()
        self.worker = None

    def connect(self):
        """A process that registers, takes its jobs over and answers for the rest."""
        self.worker = Worker(self.lab.plane)
        self.worker.held.update(self.claims)
        registered = self.lab.go(self.worker.register())
        for question in registered.questions:
            claim = self.claims.get(question.run_id)
            if claim is None or claim.offer_id != question.offer_id:
                continue  # never heard of it: it was lost on the way, and its lease will run out
            self.worker.held[question.run_id] = replace(claim, version=question.version)
            key = (claim.run_id, claim.attempt)
            if self.begun[key]:
                self.say("adopt", question.run_id)
            else:
                self.say("attest", question.run_id, answer="never_began", proof="not_begun")
                del self.claims[question.run_id]

    def say(self, kind, run_id, **fields):
        answer = self.lab.go(self.worker.say(kind, run_id, **fields))
        self.claims[run_id] = self.worker.held[run_id]
        return answer

    def work(self, code):
        """Pull, begin and end whatever there is."""
        for run_id in self.lab.go(self.worker.pull(2)):
            self.claims[run_id] = self.worker.held[run_id]
        for run_id, claim in list(self.claims.items()):
            key = (run_id, claim.attempt)
            if not self.begun[key]:
                if self.say("starting", run_id).outcome == "refused":
                    del self.claims[run_id]
                    continue
                self.begun[key] += 1
                self.say("running", run_id)
            self.ended.add(key)
            answer = self.say("completed", run_id, result=Result(exit_code=code(sum(self.begun.values()))))
            assert answer.outcome in {"ok", "replayed"}, answer
            del self.claims[run_id]


def life(lab, machine, tasks, code):
    """From the files to the end; repeated after a crash. Every step may be the second time."""
    lab.publish(*tasks)
    first = lab.run(tasks[0].name, key="k")
    machine.connect()
    for _ in range(12):
        lab.settle()
        machine.work(code)
        if lab.state(first) in {"succeeded", "failed"}:
            return first
        lab.clock.advance(LEASE_MS + SECOND)
    raise AssertionError(f"not ended: {lab.view(first)}")


def crash_at(lab, number, when):
    """Crash before or after the transaction of this number; the list counts."""
    ledger, seen = lab.store.ledger, [0]
    real = ledger.transact

    async def transact(keys, decide):
        seen[0] += 1
        if (seen[0], when) == (number, "before"):
            raise Crash
        result = await real(keys, decide)
        if (seen[0], when) == (number, "after"):
            raise Crash
        return result

    ledger.transact = transact
    return seen


LIVES = {
    # name: the tasks, and the exit code of each execution
    "succeeds": ((spec(),), lambda execution: 0),
    "fails": ((spec(),), lambda execution: 3),
    "is-retried": ((spec(retry=retry(3, ("failed",))),), lambda execution: int(execution == 1)),
}


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("name", LIVES)
def test_case_7_and_16_a_crash_at_every_point_of_a_runs_life_changes_nothing_about_its_end(
    tmp_path, name, when
):
    tasks, code = LIVES[name]
    folder = tmp_path / "calm"
    folder.mkdir()
    lab = Lab(folder)
    count = crash_at(lab, 0, "never")
    machine = Machine(lab)
    wanted = lab.state(life(lab, machine, tasks, code))
    executions = sum(machine.begun.values())
    lab.close()
    assert count[0] >= 7
    for number in range(1, count[0] + 1):
        folder = tmp_path / f"{number}"
        folder.mkdir()
        lab = Lab(folder)
        machine = Machine(lab)
        crash_at(lab, number, when)
        with pytest.raises(Crash):
            life(lab, machine, tasks, code)
        lab.restart()
        run_id = life(lab, machine, tasks, code)
        check(lab, machine, run_id, wanted, executions)
        lab.close()


def check(lab, machine, run_id, wanted, executions):
    view = lab.view(run_id)
    assert [run.run_id for run in lab.runs()] == [run_id], "one request, one Run"
    assert view.run.state == wanted
    assert [event.version for event in view.events] == list(range(1, view.run.version + 1))
    assert set(machine.begun.values()) <= {0, 1}, "no Attempt began twice"
    assert sum(machine.begun.values()) == executions, "nothing ran more often than without a crash"
    assert view.lease is None
    assert lab.store.rows("SELECT count(*) FROM queue")[0][0] == 0
    assert lab.store.rows("SELECT count(*) FROM due")[0][0] == 0
    assert lab.store.rows("SELECT count(*) FROM places")[0][0] == 0


@pytest.mark.parametrize("when", ["before", "after"])
def test_case_14_a_crash_at_every_point_of_a_tick_makes_one_run_of_it(tmp_path, when):
    tasks = tuple(spec(f"task-{n}", triggers=(every(MINUTE),)) for n in range(5))
    for number in range(1, 8):
        folder = tmp_path / f"{number}"
        folder.mkdir()
        lab = Lab(folder)
        lab.publish(*tasks)
        lab.cycle()
        lab.clock.advance(MINUTE)
        crash_at(lab, number, when)
        try:
            lab.publish(*tasks)
            lab.settle()
            number = 0
        except Crash:
            lab.restart()
            lab.publish(*tasks)
            lab.settle()
        assert Counter(run.task for run in lab.runs()) == {task.name: 1 for task in tasks}
        lab.close()
        if not number:
            break


def test_i12_a_request_whose_answer_was_lost_is_repeated_with_its_key(tmp_path):
    lab = Lab(tmp_path)
    lab.publish(spec())
    crash_at(lab, 1, "after")
    with pytest.raises(Crash):
        lab.run(key="k")
    lab.restart()
    (stored,) = lab.runs()
    assert lab.run(key="k") == stored.run_id
    lab.publish()
    assert lab.run(key="k") == stored.run_id, "also when its task was removed since"
    lab.close()


def test_a_ledger_that_fails_for_a_while_strands_nothing(tmp_path, monkeypatch):
    lab = Lab(tmp_path)
    lab.publish(*(spec(f"task-{n}") for n in range(4)))
    machine = Machine(lab)
    machine.connect()
    lab.settle()
    ids = [lab.run(f"task-{n}") for n in range(4)]
    real, calls = lab.store.ledger.transact, [0]

    async def flaky(keys, decide):
        calls[0] += 1
        if calls[0] % 3 == 0:
            raise Unavailable("database_error", "as if")
        return await real(keys, decide)

    monkeypatch.setattr(lab.store.ledger, "transact", flaky)
    for _ in range(40):
        lab.cycle()
        try:
            machine.work(lambda execution: 0)
        except QingLongError:
            lab.clock.advance(SECOND)
    lab.settle()
    assert {lab.state(run_id) for run_id in ids} == {"succeeded"}
    assert set(machine.begun.values()) == {1}
    lab.close()
