"""The laws, as a machine: the whole control plane under honest workers with every kind of bad luck.

Workers tell the truth about what they know, but their processes crash, their machines reboot, requests and replies
are lost, old messages come again, and clocks step. After every step the promises are checked against the stored facts
*and* against what really ran.
"""

from __future__ import annotations

import asyncio
import hashlib
import random
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol, TypeVar

from msgspec.structs import replace

from qinglong.control.deps import STANDALONE
from qinglong.domain import states
from qinglong.domain.change import Aggregate
from qinglong.domain.completion import Result
from qinglong.domain.definitions import Backoff, Missed, Overlap, Retry, TaskSpec
from qinglong.domain.dispatch import Want
from qinglong.domain.gates import OCCUPIES, WAITS, is_overlap, places
from qinglong.domain.records import Attempt, AttemptRef, Event, Policy
from qinglong.errors import NotFound, Refused
from qinglong.limits import LATE_EVIDENCE_PER_ATTEMPT, MINUTE, SECOND
from qinglong.wire.worker import Answer, Claim, Offer, Register, Reply, Report, Sync
from support.builders import every, queue, spec
from support.clock import FakeClock
from support.plane import Plane

T = TypeVar("T")
BUDGETS = replace(STANDALONE, recover_page=3, retry_page=3, trigger_page=3)


@dataclass
class Facts:
    """Everything that is stored about Runs."""

    aggregates: dict[str, Aggregate]
    attempts: dict[AttemptRef, Attempt]
    events: dict[str, list[Event]]
    late: dict[tuple[str, str, int], int]


@dataclass(eq=False)
class Delivery:
    """What a worker knows about one offer. ``state`` is the truth about its command."""

    offer: Offer
    worker: Mate
    claim: Claim
    state: str = "offered"
    """offered, asked (the barrier's answer may be lost), begun, ended, killed (no receipt), closed."""
    result: Result | None = None
    sent: list[Report] = field(default_factory=list)
    wish: str = ""
    """Why it was told to stop."""
    adopts: bool = False
    """Its process is new: it says nothing else before its adoption was answered."""


class Mate:
    """One worker name: its process, its journal, its machine."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.process = 0
        self.generation = 0
        self.seq = 0
        self.wants: list[Want] = []
        self.mine: list[Delivery] = []
        self.questions: list[Claim] = []
        self.numbers = 0

    @property
    def session_id(self) -> str:
        return f"{self.name}-p{self.process}"

    def token(self, offer_id: str) -> str:
        return hashlib.sha256(f"{self.name}:{offer_id}".encode()).hexdigest()

    def fresh(self, count: int) -> tuple[Want, ...]:
        while len(self.wants) < count:
            self.numbers += 1
            offer_id = f"{self.name}-{self.numbers}"
            digest = hashlib.sha256(bytes.fromhex(self.token(offer_id))).hexdigest()
            self.wants.append(Want(offer_id, digest))
        return tuple(self.wants[:count])


class Choose(Protocol):
    """Where chance comes from: Hypothesis, or a seeded generator."""

    def __call__(self, options: Sequence[T], /) -> T: ...


def specs(choose: Choose, name: str) -> TaskSpec:
    """Any policy at all, also those that a job file would refuse."""
    causes = [("failed", "timed_out", "lost"), ("failed", "timed_out"), ("lost",), ("failed",)]
    backoff = Backoff(choose([0, 1_000, 60_000]), choose([2.0, 1.0]), 300_000)
    moments = [*[None] * 6, 30 * SECOND, 5 * MINUTE]
    missed = choose([Missed(), Missed("skip"), Missed("all", 3)])
    return spec(
        name,
        safety=choose([None, "idempotent", "idempotent", "deduplicated"]),
        retry=Retry(choose([1, 2, 3, 3]), choose(causes), backoff),
        overlap=choose(
            [Overlap(), Overlap("allow"), Overlap("allow"), queue(1), queue(3), Overlap("replace")]
        ),
        timeout_ms=choose(moments),
        start_within_ms=choose(moments),
        deadline_ms=choose(moments),
        concurrency=choose(["", "db"]),
        triggers=choose([(), (), (every(5 * MINUTE, missed=missed),)]),
    )


TASKS = ("a", "b", "c")


class Laws:
    """Subclasses give the backend: ``make``, ``drive``, ``facts`` and ``extra``.

    ``begin``, then any number of ``step`` and ``check``, then ``finish``.
    """

    workers: ClassVar[tuple[str, ...]] = ("w1", "w2")

    def make(self, clock: FakeClock) -> Any:
        raise NotImplementedError

    def drive(self, work: Coroutine[Any, Any, T]) -> T:
        raise NotImplementedError

    def facts(self) -> Facts:
        raise NotImplementedError

    def extra(self, facts: Facts) -> None:
        """Checks of the backend's own."""

    # The world

    def begin(self, choose: Choose) -> None:
        tasks = tuple(specs(choose, name) for name in TASKS)
        self.clock = FakeClock()
        self.store = self.make(self.clock)
        self.restarts = 1
        self.plane = Plane(self.store, BUDGETS, seed=self.restarts)
        self.mates = [Mate(name) for name in self.workers]
        self.log: list[tuple[Mate, Report]] = []
        self.trace: list[str] = []
        """What happened so far, for whoever reads a failure."""
        self.began: dict[str, list[Delivery]] = {}
        self.finals: dict[str, Aggregate] = {}
        self.policies: dict[str, Policy] = {}
        self.before: Facts | None = None
        self.overrides: set[str] = set()
        self.highest = 0
        """The latest moment that the wall clock has shown."""
        self.inside: dict[str, set[str]] = {}
        self.capacity = self.widest = 2
        """Of the concurrency group; and the widest that it was since the last check."""
        self.publish(tasks)
        for mate in self.mates:
            self.restart(mate)
        self.drive(self.plane.settle())

    def publish(self, tasks: tuple[TaskSpec, ...]) -> None:
        self.specs = tasks
        self.drive(self.plane.publish(*tasks, concurrency_groups={"db": self.capacity}))
        self.drive(self.plane.settle())

    def restart(self, mate: Mate) -> None:
        mate.process += 1
        mate.seq = 0
        mate.wants = []
        said = Register(mate.session_id, f"{mate.name}-journal", mate.process, 3, "host")
        registered = self.drive(self.plane.workers.register(mate.name, said))
        mate.generation = registered.generation
        mate.questions = [
            Claim(
                ask.run_id,
                ask.step,
                ask.attempt,
                ask.offer_id,
                ask.generation,
                ask.version,
                mate.token(ask.offer_id),
            )
            for ask in registered.questions
        ]
        for question in list(mate.questions):
            for delivery in self.began.get(question.run_id, []):
                if delivery.offer.offer_id == question.offer_id:
                    delivery.claim = _at(delivery.claim, question.version)
                    mate.questions.remove(question)

    def sync(self, mate: Mate, *reports: Report, lost: bool = False, **fields: Any) -> Reply | None:
        """One request; ``lost``: it arrives, its reply does not."""
        mate.seq += 1
        self.log += [(mate, report) for report in reports]
        reply = self.raw(mate, *reports, seq=mate.seq, **fields)
        if lost:
            return None
        for directive in reply.directives:
            for delivery in mate.mine:
                if (delivery.offer.run_id, delivery.offer.attempt) == (directive.run_id, directive.attempt):
                    delivery.wish = directive.reason
        return reply

    def raw(self, mate: Mate, *reports: Report, seq: int, **fields: Any) -> Reply:
        request = Sync(mate.session_id, mate.generation, seq, reports=reports, **fields)
        return self.drive(self.plane.workers.sync(mate.name, request, asyncio.Event()))

    def say(self, delivery: Delivery, report: Report, *, lost: bool = False) -> Answer | None:
        delivery.sent.append(report)
        reply = self.sync(delivery.worker, report, lost=lost)
        if reply is None:
            return None
        (answer,) = reply.answers
        if answer.outcome != "refused" and answer.version > delivery.claim.version:
            delivery.claim = _at(delivery.claim, answer.version)
        return answer

    def deliveries(self, *wanted: str) -> list[Delivery]:
        return [one for mate in self.mates for one in mate.mine if one.state in wanted and not one.adopts]

    def orphans(self) -> list[Delivery]:
        return [one for mate in self.mates for one in mate.mine if one.adopts]

    def pick(self, choose: Choose, *wanted: str) -> Delivery:
        return choose(self.deliveries(*wanted))

    # One step: something that can happen now, the ordinary more often than the rest

    def step(self, choose: Choose) -> None:
        can = [name for name, (weight, when) in WEIGHTS.items() if when(self) for _ in range(weight)]
        name = choose(can)
        self.trace.append(name)
        getattr(self, name)(choose)

    def lost(self, choose: Choose) -> bool:
        """Whether this reply is lost on its way."""
        return choose([False, False, False, True])

    # People and time

    def admit(self, choose: Choose) -> None:
        task = choose([one.name for one in self.specs] or [""])
        override = choose([False, False, False, True])
        try:
            run = self.drive(self.plane.control.run("default", task, by="ann", allow_overlap=override))
        except NotFound:
            assert not task
            return
        except Refused as error:
            assert error.code in {"overlap", "queue_full", "group_full"}
            return
        if override:
            self.overrides.add(run.run_id)

    def cancel(self, choose: Choose) -> None:
        ids = sorted(self.facts().aggregates)
        run_id = choose(ids[-6:])
        try:
            self.drive(self.plane.control.cancel(run_id, by="bob"))
        except Refused as error:
            assert error.code == "final"

    def time_passes(self, choose: Choose) -> None:
        pauses = [1, 999, 2 * SECOND, 10 * SECOND, 61 * SECOND, 61 * SECOND, 6 * MINUTE]
        self.clock.advance(choose(pauses))

    def the_clock_steps(self, choose: Choose) -> None:
        steps = [-60 * MINUTE, -61 * SECOND, -1, 5 * MINUTE]
        self.clock.step(choose(steps))

    def edit(self, choose: Choose) -> None:
        """A task is changed, removed, or comes back; the group becomes wider or narrower."""
        task = choose(TASKS)
        kept = [one for one in self.specs if one.name != task]
        before, self.capacity = self.capacity, choose([1, 2, 2, 3])
        self.widest = max(before, self.capacity)
        removed = len(kept) == len(self.specs) - 1 and choose([False, False, True])
        self.publish(tuple(kept if removed else [*kept, specs(choose, task)]))

    # The cycle

    def recover(self, choose: Choose) -> None:
        self.drive(self.plane.control.cycle.recover.step())

    def retry(self, choose: Choose) -> None:
        self.drive(self.plane.control.cycle.retry.step())

    def cycle(self, choose: Choose) -> None:
        self.drive(self.plane.cycle())
        assert self.plane.control.door.is_open, self.plane.control.door.reasons

    def restart_control(self, choose: Choose) -> None:
        """The control objects are new, the ledger stays; workers go on with their sessions."""
        self.restarts += 1
        self.plane = Plane(self.store, BUDGETS, seed=self.restarts)
        self.drive(self.plane.settle())

    # Workers

    def pull(self, choose: Choose) -> None:
        mate = choose(self.mates)
        slots = choose([1, 2, 3])
        reply = self.sync(mate, lost=self.lost(choose), free_slots=slots, wants=mate.fresh(slots))
        if reply is not None:
            self.take(mate, reply)

    def take(self, mate: Mate, reply: Reply) -> None:
        for offer in reply.offers:
            claim = Claim(
                offer.run_id,
                offer.step,
                offer.attempt,
                offer.offer_id,
                offer.generation,
                offer.version,
                mate.token(offer.offer_id),
            )
            mate.wants = [want for want in mate.wants if want.offer_id != offer.offer_id]
            mate.mine.append(Delivery(offer, mate, claim))

    def starting(self, choose: Choose) -> None:
        self.start(self.pick(choose, "offered", "asked"), lost=self.lost(choose))

    def start(self, delivery: Delivery, *, lost: bool = False) -> None:
        delivery.state = "asked"
        answer = self.say(delivery, Report("starting", delivery.claim), lost=lost)
        if answer is None:
            return
        if answer.outcome == "refused":
            delivery.state = "closed"
            return
        self.launch(delivery)

    def launch(self, delivery: Delivery) -> None:
        """The command really begins: here I3 is judged by what is true, not by what is stored."""
        run_id, facts = delivery.offer.run_id, self.facts()
        earlier = self.began.setdefault(run_id, [])
        policy = facts.aggregates[run_id].run.policy
        for one in earlier:
            assert one.state != "begun", "two executions of one Run at once"
            attempt = facts.attempts[AttemptRef(run_id, "", one.offer.attempt)]
            assert attempt.status in states.ATTEMPT_FINAL, "the last one's end is not a recorded fact"
            assert attempt.number < delivery.offer.attempt
            assert attempt.status in policy.retry.when, attempt
            if attempt.status == "lost":
                assert policy.safety is not None, "it was never declared safe"
        assert len(earlier) < max(policy.retry.max_attempts, 1)
        earlier.append(delivery)
        delivery.state = "begun"

    def running(self, choose: Choose) -> None:
        delivery = self.pick(choose, "begun")
        self.say(delivery, Report("running", delivery.claim, facts={"pid": 7}), lost=self.lost(choose))

    def command_ends(self, choose: Choose) -> None:
        delivery = self.pick(choose, "begun")
        delivery.state, delivery.result = "ended", self.result(choose, delivery)

    def result(self, choose: Choose, delivery: Delivery) -> Result:
        results = {
            "ok": Result(exit_code=0),
            "bad": Result(exit_code=2),
            "signal": Result(signal=11),
            "timeout": Result(signal=15, stopped_by="timeout"),
            "start_failed": Result(start_failed="no such file"),
            "wish": Result(signal=15, stopped_by=delivery.wish),
        }
        return results[choose(sorted(results))]

    def completed(self, choose: Choose) -> None:
        self.complete(self.pick(choose, "ended"), lost=self.lost(choose))

    def complete(self, delivery: Delivery, *, lost: bool = False) -> None:
        answer = self.say(delivery, Report("completed", delivery.claim, result=delivery.result), lost=lost)
        if answer is not None:
            delivery.state = "closed"

    def running_and_completed_in_one_sync(self, choose: Choose) -> None:
        delivery = self.pick(choose, "begun")
        delivery.state, delivery.result = "ended", self.result(choose, delivery)
        reports = (
            Report("running", delivery.claim),
            Report("completed", delivery.claim, result=delivery.result),
        )
        delivery.sent += reports
        if self.sync(delivery.worker, *reports, lost=self.lost(choose)) is not None:
            delivery.state = "closed"

    def returned(self, choose: Choose) -> None:
        delivery = self.pick(choose, "offered")
        reason = choose(["declined", "shutdown", "capacity_changed"])
        self.say(delivery, Report("returned", delivery.claim, reason=reason), lost=self.lost(choose))
        delivery.state = "closed"

    def renew(self, choose: Choose) -> None:
        delivery = self.pick(choose, "offered", "asked", "begun", "ended")
        self.say(delivery, Report("renew", delivery.claim), lost=self.lost(choose))

    # Bad luck

    def worker_restarts(self, choose: Choose) -> None:
        """Its process is new. Commands live on under their keepers, unless the machine went down as well."""
        mate = choose(self.mates)
        reboot = choose([True, True, False])
        for delivery in mate.mine:
            if delivery.state in {"offered", "asked"}:
                delivery.state = "closed"  # the journal shows no go byte: it never will
                continue
            delivery.adopts = delivery.state != "closed"
            if reboot and delivery.state == "begun":
                delivery.state = "killed"
        self.restart(mate)

    def adopts(self, choose: Choose) -> None:
        self.adopt(choose(self.orphans()), lost=self.lost(choose))

    def adopt(self, delivery: Delivery, *, lost: bool = False) -> None:
        if self.say(delivery, Report("adopt", delivery.claim), lost=lost) is not None:
            delivery.adopts = False

    def answers_a_question(self, choose: Choose) -> None:
        mate = choose([mate for mate in self.mates if mate.questions])
        self.answer(mate, choose(mate.questions), lost=self.lost(choose))

    def answer(self, mate: Mate, question: Claim, *, lost: bool = False) -> None:
        """What has no entry with a go byte in the journal never began."""
        if not lost:
            mate.questions.remove(question)
        self.sync(mate, Report("attest", question, answer="never_began", proof="not_begun"), lost=lost)

    def attests_killed(self, choose: Choose) -> None:
        self.attest_killed(self.pick(choose, "killed"), lost=self.lost(choose))

    def attest_killed(self, delivery: Delivery, *, lost: bool = False) -> None:
        report = Report("attest", delivery.claim, answer="not_running", proof="boot_changed")
        if self.say(delivery, report, lost=lost) is not None:
            delivery.state = "closed"

    def attests_what_decides_nothing(self, choose: Choose) -> None:
        delivery = self.pick(choose, "begun")
        answer = choose(["running", "unknown"])
        self.say(delivery, Report("attest", delivery.claim, answer=answer))

    def an_old_message_comes_again(self, choose: Choose) -> None:
        """Replaying any report is harmless: what it says was true, and its place in time is the fence's matter."""
        mate, report = choose(self.log[-40:])
        before = self.facts().aggregates
        reply = self.raw(mate, report, seq=0)
        if reply.answers[0].outcome != "ok":
            assert self.facts().aggregates == before, "a refused or replayed report changed something"

    def a_forged_message_comes(self, choose: Choose) -> None:
        mate, report = choose(self.log[-40:])
        claim, sender = report.claim, mate
        changes: dict[str, Any] = {
            "worker": {},
            "token": {"token": "0" * 64},
            "generation": {"generation": claim.generation + 1},
            "version": {"version": claim.version + 1_000},
            "attempt": {"attempt": claim.attempt + 50},
            "offer": {"offer_id": "made-up"},
        }
        what = choose(sorted(changes))
        if what == "worker":
            sender = next(other for other in self.mates if other is not mate)
        forged = replace(report, claim=replace(claim, **changes[what]))
        before = self.facts().aggregates
        self.raw(sender, forged, seq=0)
        assert self.facts().aggregates == before

    # The promises

    def check(self) -> None:
        self.highest = max(self.highest, self.clock.wall_ms())
        facts = self.facts()
        for run_id, found in facts.aggregates.items():
            self.check_run(run_id, found, facts)
        self.check_gates(facts)
        assert all(kept <= LATE_EVIDENCE_PER_ATTEMPT for kept in facts.late.values())
        self.extra(facts)
        self.before = facts

    def check_run(self, run_id: str, found: Aggregate, facts: Facts) -> None:
        run, newest, lease = found.run, found.attempt, found.lease
        events = facts.events[run_id]
        assert [event.version for event in events] == list(range(1, run.version + 1)), "I1"
        attempts = sorted((one for ref, one in facts.attempts.items() if ref.run_id == run_id), key=_number)
        assert [one.number for one in attempts] == list(range(1, run.attempt + 1)), "dense numbers"
        assert attempts[-1] == newest
        assert all(one.status in states.ATTEMPT_FINAL for one in attempts[:-1]), "I2"
        final = newest.status in states.ATTEMPT_FINAL
        assert (newest.ended_ms is not None) == final
        assert not (final and lease is not None), "I5"
        assert (lease is not None) == (not final and not newest.pristine), (
            "what is in a worker's hands is leased"
        )
        if lease is not None:
            assert 1 <= lease.floor <= lease.version
            assert (lease.generation, lease.attempt) == (newest.lease_generation, newest.number)
        assert newest.lease_end in {"", "completed", *states.RELEASE_REASONS}
        assert (run.finished_ms is not None) == (run.state in states.RUN_FINAL)
        assert (run.held_by != "") == (run.state == "created")
        assert not (run.state in states.RUN_FINAL and not final), "a final Run has no live Attempt"
        assert run.state != "queued" or newest.pristine
        assert run.state not in {"dispatching", "running"} or lease is not None
        assert run.barriers <= max(run.policy.retry.max_attempts, 1), "no more barriers than attempts allowed"
        assert self.policies.setdefault(run_id, run.policy) == run.policy, (
            "D3: resolved at admission, for good"
        )
        self.check_i3(attempts, run.policy)
        running = {one.offer.attempt for one in self.began.get(run_id, []) if one.state == "begun"}
        ended = {one.number for one in attempts if one.status in states.ATTEMPT_FINAL}
        assert not running & ended, "an Attempt is final while its command runs"
        if run_id in self.finals:
            assert self.finals[run_id] == found, "I8"
        elif run.state in states.RUN_FINAL:
            self.finals[run_id] = found
        if self.before is not None and run_id in self.before.aggregates:
            last = self.before.aggregates[run_id]
            assert run.version >= last.run.version
            assert run.attempt >= last.run.attempt
            if run.attempt == last.run.attempt:
                assert newest.lease_generation >= last.attempt.lease_generation

    def check_i3(self, attempts: list[Attempt], policy: Policy) -> None:
        for attempt in attempts[:-1]:
            if attempt.reason == "never_started":
                continue
            assert policy.retry.max_attempts > 1
            assert attempt.status in policy.retry.when
            assert attempt.status != "lost" or policy.safety is not None, "I3"

    def check_gates(self, facts: Facts) -> None:
        inside: dict[str, list[str]] = {}
        waiting: dict[str, list[str]] = {}
        for run_id, found in facts.aggregates.items():
            stand = places(found.run)
            if found.run.state not in states.RUN_FINAL and not found.run.held_by:
                assert stand == tuple((key, OCCUPIES) for key in found.run.gates)
            for key, kind in stand:
                (waiting if kind == WAITS else inside).setdefault(key, []).append(run_id)
        for key, runs in inside.items():
            bound = [run_id for run_id in runs if not is_overlap(key) or run_id not in self.overrides]
            came = set(bound) - self.inside.get(key, set())
            widest = 1 if is_overlap(key) else self.widest
            assert not came or len(bound) <= widest, f"{came} came in, and {key} is over its capacity"
        for key, runs in waiting.items():
            if len(inside.get(key, [])) < self.room(key):
                self.left_waiting(key, runs)
        self.inside = {key: set(runs) for key, runs in inside.items()}
        self.widest = self.capacity

    def room(self, key: str) -> int:
        return 1 if is_overlap(key) else self.capacity

    def left_waiting(self, key: str, runs: list[str]) -> None:
        """A backend that does not load every Run may leave one to the sweep."""
        raise AssertionError(f"{runs} wait at {key} before room")

    # In the end

    def end(self) -> None:
        """Give the backend back."""

    def finish(self) -> None:
        """Once faults stop, clocks are right, time passes and workers answer, every Run becomes final."""
        self.clock.step(max(self.highest - self.clock.wall_ms(), 0))
        self.publish(tuple(replace(one, triggers=()) for one in self.specs))
        for _ in range(60):
            if all(found.run.state in states.RUN_FINAL for found in self.facts().aggregates.values()):
                return
            self.clock.advance(6 * MINUTE)
            for mate in self.mates:
                self.catch_up(mate)
            self.drive(self.plane.settle())
            self.check()
        stuck = [f for f in self.facts().aggregates.values() if f.run.state not in states.RUN_FINAL]
        raise AssertionError(f"never final: {stuck}")

    def catch_up(self, mate: Mate) -> None:
        for question in list(mate.questions):
            self.answer(mate, question)
        reply = self.sync(mate, free_slots=3, wants=mate.fresh(3))
        assert reply is not None
        self.take(mate, reply)
        for delivery in list(mate.mine):
            if delivery.adopts:
                self.adopt(delivery)
            if delivery.state in {"offered", "asked"}:
                self.start(delivery)
            if delivery.state == "begun":
                delivery.state, delivery.result = "ended", Result(exit_code=0)
            if delivery.state == "ended":
                self.complete(delivery)
            if delivery.state == "killed":
                self.say(
                    delivery, Report("attest", delivery.claim, answer="not_running", proof="boot_changed")
                )
                delivery.state = "closed"


def _any(*wanted: str) -> Callable[[Laws], bool]:
    return lambda laws: bool(laws.deliveries(*wanted))


def _always(_: Laws) -> bool:
    return True


WEIGHTS: dict[str, tuple[int, Callable[[Laws], bool]]] = {
    "admit": (3, _always),
    "cancel": (1, lambda laws: bool(laws.facts().aggregates)),
    "time_passes": (3, _always),
    "the_clock_steps": (1, _always),
    "edit": (1, _always),
    "recover": (3, _always),
    "retry": (3, _always),
    "cycle": (1, _always),
    "restart_control": (1, _always),
    "pull": (6, _always),
    "starting": (9, _any("offered", "asked")),
    "running": (4, _any("begun")),
    "command_ends": (4, _any("begun")),
    "completed": (5, _any("ended")),
    "running_and_completed_in_one_sync": (2, _any("begun")),
    "returned": (1, _any("offered")),
    "renew": (2, _any("offered", "asked", "begun", "ended")),
    "worker_restarts": (3, _any("offered", "asked", "begun")),
    "adopts": (6, lambda laws: bool(laws.orphans())),
    "attests_killed": (6, _any("killed")),
    "answers_a_question": (8, lambda laws: any(mate.questions for mate in laws.mates)),
    "attests_what_decides_nothing": (1, _any("begun")),
    "an_old_message_comes_again": (2, lambda laws: bool(laws.log)),
    "a_forged_message_comes": (1, lambda laws: bool(laws.log)),
}


def _at(claim: Claim, version: int) -> Claim:
    return replace(claim, version=version)


def _number(attempt: Attempt) -> int:
    return attempt.number


def walk(laws: Laws, seed: int, steps: int) -> None:
    """One random walk; a failure tells how to walk it again."""
    rng = random.Random(seed)
    laws.begin(rng.choice)
    try:
        for _ in range(steps):
            laws.step(rng.choice)
            laws.check()
        laws.finish()
    except BaseException as error:
        error.add_note(f"walk {seed}: {' → '.join(laws.trace)}")
        raise
    finally:
        laws.end()
