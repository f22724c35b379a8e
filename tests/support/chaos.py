"""A storm of ``kill -9`` over a mix of tasks, and what must be true after it.

Rounds kill the server, keepers and commands at random points; the calm afterwards lets everything come to its end.
Then the diary, which the jobs wrote themselves, is held against what the server says. One seed makes one storm,
as far as the machine's own timing allows.
"""

from __future__ import annotations

import contextlib
import http.client
import itertools
import random
import signal
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from typing import Any, NamedTuple

from support.server import FINAL, Line, Server, diary, every, is_keeper, jobs, kill, wait_until

_NAP = "sleep 0.$(( $(od -An -N1 -tu1 /dev/urandom) % 8 ))"
"""Up to 0.7 s, different each time."""
_AGAIN = {"max_attempts": 4, "backoff": {"initial": "1s", "max": "2s"}}

TASKS: dict[str, Any] = {
    "plain": {"run": diary(_NAP), "overlap": "allow"},
    "quick": {"run": diary(), "overlap": "allow"},
    "retry": {"run": diary(f"{_NAP}; [ $QL_ATTEMPT != 1 ]"), "overlap": "allow", "retry": _AGAIN},
    "lost": {
        "run": diary(_NAP),
        "overlap": "allow",
        "safety": "idempotent",
        "retry": {**_AGAIN, "when": ["failed", "lost"]},
    },
    "queue": {"run": diary(_NAP), "overlap": {"queue": 1000}},
    "tick": {"run": diary(_NAP), **every("1s"), "overlap": "skip"},
    "make-up": {"run": diary(), **every("2s"), "overlap": {"queue": 1000}, "missed": {"all": 1000}},
    "slow": {"run": diary("sleep 60"), "timeout": "700ms", "stop": {"grace": "500ms"}, "overlap": "allow"},
    "brief": {"run": diary("sleep 60"), "deadline": "1200ms", "stop": {"grace": "500ms"}, "overlap": "allow"},
    "replace": {"run": diary(_NAP), "overlap": "replace", "stop": {"grace": "500ms"}},
    "group-a": {"run": diary(_NAP), "overlap": "allow", "concurrency": "one"},
    "group-b": {"run": diary(_NAP), "overlap": "allow", "concurrency": "one"},
}
BY_HAND = (
    "plain",
    "plain",
    "quick",
    "retry",
    "lost",
    "queue",
    "slow",
    "brief",
    "replace",
    "group-a",
    "group-b",
)
ALONE = (("queue",), ("tick",), ("make-up",), ("replace",), ("group-a", "group-b"))
"""Tasks of which one Run at a time may execute."""
ONCE = frozenset(TASKS) - {"retry", "lost"}
"""Tasks without a policy for another Attempt: executed at most once, whatever happens."""

HOWS = (
    *("server", "server", "asking", "starting", "leaving"),
    *("keeper", "command", "tree", "server+keeper", "server+command", "server+tree"),
)
LOST = (OSError, http.client.HTTPException)
"""No answer came: what happened is unknown (I12)."""


class Storm:
    """Rounds of murder on one server."""

    def __init__(self, server: Server, seed: int) -> None:
        self.server = server
        self.rng = random.Random(seed)
        self.acknowledged: dict[str, str] = {}
        """Key to the Run that the server said it had made."""
        self.asked: dict[str, str] = {}
        """Every key to the task that it asked for."""
        self.kills: Counter[str] = Counter()

    def round(self) -> None:
        """Ask for some Runs, then kill something at some moment."""
        server, rng = self.server, self.rng
        if not server.running:
            server.restart()
        for _ in range(rng.randint(1, 3)):
            self._ask(f"k{len(self.asked)}", rng.choice(BY_HAND))
        if rng.random() < 0.3:
            self._cancel_one()
        if rng.random() < 0.2:
            server.edit(self._file(rng.choice(("1s", "2s"))))
        how = rng.choice(HOWS)
        if how == "asking":
            self._kill_while_asking()
        else:
            time.sleep(rng.random() * 0.5)  # the random point itself, not a wait for something
            self._strike(how)
        self.kills[how] += 1

    def _file(self, interval: str) -> str:
        """The tasks with another interval: an edit that a crash may meet half-way."""
        return jobs(groups={"one": 1}, **{**TASKS, "tick": {**TASKS["tick"], **every(interval)}})

    def start(self) -> None:
        """The first ``ql up``."""
        self.server.options = ("--slots", str(self.rng.choice((3, 6, 12))))
        self.server.edit(self._file("1s"))
        self.server.start()

    def _ask(self, key: str, task: str) -> None:
        self.asked.setdefault(key, task)
        with contextlib.suppress(*LOST):
            self.acknowledged[key] = self.server.admit(self.asked[key], key=key)

    def _kill_while_asking(self) -> None:
        """The server dies somewhere between the request and its reply."""
        key = f"k{len(self.asked)}"
        asking = threading.Thread(target=self._ask, args=(key, self.rng.choice(BY_HAND)))
        self.asked[key] = self.rng.choice(BY_HAND)
        asking.start()
        time.sleep(self.rng.random() * 0.03)  # the random point itself, not a wait for something
        self.server.crash()
        asking.join()

    def _cancel_one(self) -> None:
        open_runs = [run["run_id"] for run in self.server.runs(state="open")]
        if open_runs:
            with contextlib.suppress(AssertionError, *LOST):
                self.server.cancel(self.rng.choice(open_runs))

    def _strike(self, how: str) -> None:
        found = self.server.carriers()
        keepers = sorted(filter(is_keeper, found))
        if how.startswith("server"):
            self.server.crash()
        if how == "leaving":
            self.server.send(signal.SIGTERM)
            time.sleep(self.rng.random() * 0.2)
            self.server.crash()
        if how == "starting":
            self.server.crash()
            self.server.launch()
            time.sleep(self.rng.random())
            self.server.crash()
        if how.endswith("tree") and keepers:
            victim = found[self.rng.choice(keepers)]
            for pid, run in found.items():
                if run == victim:
                    kill(pid)
        if how.endswith("keeper") and keepers:
            kill(self.rng.choice(keepers))
        commands = sorted(pid for pid in found if pid not in keepers)
        if how == "command" and commands:
            kill(self.rng.choice(commands))

    def calm(self, within: float = 90.0) -> None:
        """No more murder: repeat what had no reply, stop the ticking, and wait for every Run's end."""
        server = self.server
        if not server.running:
            server.restart()
        for key in sorted(self.asked.keys() - self.acknowledged.keys()):
            self._ask(key, self.asked[key])
        assert self.asked.keys() == self.acknowledged.keys(), "every request was answered in the end"
        quiet = {name: {k: v for k, v in task.items() if k != "triggers"} for name, task in TASKS.items()}
        server.edit(jobs(groups={"one": 1}, **quiet))
        wait_until(
            lambda: not any(task.get("triggers") for task in server.get("/tasks")["tasks"]), "nothing ticks"
        )
        wait_until(self._settled, "every Run has ended or is honestly unreachable", within, 0.2)

    def _settled(self) -> bool:
        return all("unreachable_ms" in run for run in self.server.runs(state="open"))


class Fact(NamedTuple):
    """One Run: what the server says and what its jobs did."""

    detail: dict[str, Any]
    lines: list[Line]

    @property
    def run(self) -> dict[str, Any]:
        return self.detail["run"]


def judge(storm: Storm) -> Counter[str]:
    """Every promise that a storm may try; how its Runs ended. Raises with the first that is broken."""
    server = storm.server
    facts = _facts(server)
    for key, run_id in storm.acknowledged.items():
        assert run_id in facts, f"{key} was acknowledged and is lost (I1)"
        assert facts[run_id].run["task"] == storm.asked[key]
    made = Counter(storm.acknowledged.values())
    assert max(made.values(), default=1) == 1, "two keys share a Run"
    manual = {run_id for run_id, fact in facts.items() if fact.run["cause"] == "manual"}
    assert manual == set(storm.acknowledged.values()), "a Run by hand that nobody asked for"
    strangers = {line.run for line in server.lines()} - facts.keys()
    assert not strangers, f"executed, and unknown to the server: {strangers}"
    for run_id, fact in facts.items():
        try:
            for check in (_ended, _dense, _once, _ordered, _honest):
                check(fact)
        except AssertionError as error:
            raise AssertionError(f"run {run_id}: {error}\n{_story(fact)}") from None
    _alone(facts)
    _fenced(facts)
    _occurrences(facts)
    assert server.ready()[0] == 200
    assert server.carriers() == {}, "a process of an ended Run is left"
    return Counter(
        f"{fact.run['task']} {fact.run['state']} {fact.run.get('reason', '')}" for fact in facts.values()
    )


def _facts(server: Server) -> dict[str, Fact]:
    said: dict[str, list[Line]] = defaultdict(list)
    for line in server.lines():
        said[line.run].append(line)
    return {run["run_id"]: Fact(server.detail(run["run_id"]), said[run["run_id"]]) for run in server.runs()}


def _ended(fact: Fact) -> None:
    assert fact.run["state"] in FINAL, f"is {fact.run['state']}: {fact.detail['now']}"


def _dense(fact: Fact) -> None:
    versions = [event["version"] for event in fact.detail["events"]]
    assert versions == list(range(1, fact.run["version"] + 1)), f"versions {versions} (I1)"


def _once(fact: Fact) -> None:
    starts = Counter(line.attempt for line in fact.lines if line.word == "start")
    twice = [attempt for attempt, count in starts.items() if count > 1]
    assert not twice, f"attempt {twice} was started twice"
    if fact.run["task"] in ONCE:
        assert len(starts) <= 1, f"executed {len(starts)} times without a policy (I3)"


def _ordered(fact: Fact) -> None:
    """Attempt N + 1 starts after N's recorded end, and after everything that N did."""
    ends: dict[int, int] = {}
    for event in fact.detail["events"]:
        data = event.get("data", {})
        if event["kind"] in {"completed", "lost"}:
            ends[data["attempt"]] = event["at_ms"]
        if event["kind"] == "retried":
            assert data["attempt"] - 1 in ends, (
                f"attempt {data['attempt']} without an end of the one before (I3)"
            )
    assert [attempt["number"] for attempt in fact.detail["attempts"]] == list(
        range(1, fact.run["attempt"] + 1)
    )
    for line in fact.lines:
        for older in fact.lines:
            if line.word == "start" and older.attempt < line.attempt:
                assert line.place > older.place, "two attempts at once"
                assert not line.at_ms or line.at_ms >= ends[older.attempt] - 50, (
                    "started before the recorded end"
                )


def _honest(fact: Fact) -> None:
    """What the server calls a success is one in the diary; what never began left no line."""
    newest = fact.run["attempt"]
    mine = [line.word for line in fact.lines if line.attempt == newest]
    if fact.run["state"] == "succeeded":
        assert mine == ["start", "end"], f"succeeded, and wrote {mine}"
    for attempt in fact.detail["attempts"]:
        if attempt.get("reason") == "never_started":
            assert not [line for line in fact.lines if line.attempt == attempt["number"]], (
                "never_started, yet it ran"
            )


def _alone(facts: dict[str, Fact]) -> None:
    """Runs that exclude each other did not execute together."""
    for tasks in ALONE:
        spans = []
        for run_id, fact in facts.items():
            places = [line.place for line in fact.lines]
            if places and fact.run["task"] in tasks:
                spans.append((min(places), max(places), run_id))
        spans.sort()
        for (_, end, first), (start, _, second) in itertools.pairwise(spans):
            assert start >= end, f"{first} and {second} of {tasks} ran together"


def _fenced(facts: dict[str, Fact]) -> None:
    """Each execution has a fence of its own, and a Run's later one has the greater (it never goes back)."""
    owners: dict[int, tuple[str, int]] = {}
    for run_id, fact in facts.items():
        for line in fact.lines:
            assert owners.setdefault(line.fence, (run_id, line.attempt)) == (run_id, line.attempt), line
        fences = [line.fence for line in fact.lines if line.word == "start"]
        assert fences == sorted(fences), f"{run_id}: fences {fences}"


def _occurrences(facts: dict[str, Fact]) -> None:
    ticks = Counter(
        (fact.run["task"], fact.run["scheduled_ms"]) for fact in facts.values() if "scheduled_ms" in fact.run
    )
    twice = [tick for tick, count in ticks.items() if count > 1]
    assert not twice, f"two Runs of one occurrence (I6): {twice}"
    made_up = sorted(moment for task, moment in ticks if task == "make-up")
    left_out = set(range(made_up[0], made_up[-1], 2_000)) - set(made_up) if made_up else set()
    assert not left_out, f"ticks that nobody answered (I9): {left_out}"


def _story(fact: Fact) -> str:
    told = [
        f"{event['version']} {event['at_ms']} {event['kind']} {event.get('data', {})}"
        for event in fact.detail["events"]
    ]
    return "\n".join([str(fact.run), *told, *map(str, fact.lines), *fact.detail.get("now", ())])


def weather(server: Server, seed: int, rounds: int) -> Counter[str]:
    """A whole storm on a server that has not been started; the seed stands in whatever it raises."""
    storm = Storm(server, seed)
    number = 0
    try:
        storm.start()
        for number in range(rounds):  # noqa: B007 - told in the note
            storm.round()
        storm.calm()
        return judge(storm)
    except BaseException as error:
        error.add_note(f"storm with seed {seed}, round {number} of {rounds}; kills: {dict(storm.kills)}")
        raise


def crash_at_admission(server: Server, rng: random.Random, number: int) -> None:
    """Case 7: kill -9 between a request and its Run's dispatch; with the same key it is the same Run, run once."""
    key, told = f"admission-{number}", []

    def ask() -> None:
        with contextlib.suppress(*LOST):
            told.append(server.admit("t", key=key))

    _crash_during(server, rng.random() * 0.03, ask)
    run = server.admit("t", key=key)
    assert told in ([], [run]), "acknowledged, then lost"
    _ran_once(server, run)


def crash_at_dispatch(server: Server, rng: random.Random, number: int) -> None:
    """Case 16: kill -9 right after a dispatch; one execution."""
    run = server.admit("t", key=f"dispatch-{number}")
    _crash_during(server, rng.random() * 0.04, lambda: None)
    _ran_once(server, run)


def _crash_during(server: Server, delay: float, work: Callable[[], None]) -> None:
    worker = threading.Thread(target=work)
    worker.start()
    time.sleep(delay)  # the random point itself, not a wait for something
    server.crash()
    worker.join()
    server.restart()


def _ran_once(server: Server, run: str) -> None:
    detail = server.until(run)
    assert detail["run"]["state"] == "succeeded", detail
    assert [line.word for line in server.lines(run)] == ["start", "end"], server.lines(run)
    real = [attempt for attempt in detail["attempts"] if attempt.get("reason") != "never_started"]
    assert [attempt["status"] for attempt in real] == ["succeeded"], detail["attempts"]
