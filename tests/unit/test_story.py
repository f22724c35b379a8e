"""Stories: every Event has its sentence (I9), no data can break one, and "now" names what a Run waits for."""

from __future__ import annotations

import ast
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import qinglong
from qinglong.domain import admission, dispatch, ending, recovery, retrying, story
from qinglong.domain.activation import running, starting
from qinglong.domain.change import Aggregate, Change, Draft
from qinglong.domain.completion import Result, complete
from qinglong.domain.definitions import Backoff, Command, Overlap, Retry, TaskSpec
from qinglong.domain.fence import Fence
from qinglong.domain.records import Attempt, Event, Evidence, Gate, Session, Task
from qinglong.limits import MINUTE, SECOND

T0 = 1_764_526_000_000
RUN = "0199a1b2-0000-7000-8000-0000abcd1234"
OTHER = "0199a1b2-0000-7000-8000-0000feed5678"
DYNAMIC = {
    "f'{intent.kind}_requested'": {"cancel_requested", "deadline_requested"},
    "state": {"failed", "cancelled", "timed_out"},
}
"""The two places where a rule computes the kind of its Event, and what can come out."""


def emitted():
    """Every kind that any rule hands to ``event(run, now, kind, …)``."""
    kinds: set[str] = set()
    root = Path(qinglong.__file__).parent
    for path in root.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if not isinstance(node, ast.Call) or ast.unparse(node.func) not in {"event", "change.event"}:
                continue
            kind = node.args[2]
            kinds |= {kind.value} if isinstance(kind, ast.Constant) else DYNAMIC[ast.unparse(kind)]
    return kinds


def test_every_kind_that_the_rules_emit_has_its_sentence():
    kinds = emitted()
    assert len(kinds) > 15
    assert kinds == set(story.TELLERS)


FACTS = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**63), 2**63 - 1), st.floats(), st.text(), st.just({"a": "b"})
)
WORDS = """
    task revision cause scheduled_ms late_ms by override held_by gate waits_for attempt worker generation
    timeout_at_ms pid digests since_ms session status reason exit_code signal stopped_by leftovers log_bytes
    log_dropped final returns undeliverable available_ms next_attempt_ms barriers max_attempts unstarted provider
    proof detail evidence_ms answer
"""
KEYS = WORDS.split()


@settings(deadline=None, derandomize=True, max_examples=300, database=None)
@given(
    kind=st.sampled_from([*sorted(story.TELLERS), "something_new"]),
    data=st.dictionaries(st.sampled_from(KEYS), FACTS, max_size=12),
)
def test_no_data_can_break_a_sentence_or_drive_a_terminal(kind, data):
    text = story.tell(Event(RUN, 1, T0, kind, data))
    assert text.endswith(".")
    assert text.isprintable()
    assert len(text) < 6_000
    assert text[0].isupper() or not text[0].isalpha()


def test_an_unknown_kind_is_told_neutrally_with_its_data():
    text = story.tell(Event(RUN, 1, T0, "brand_new", {"attempt": 2, "why": "x\x1b[2Jy"}))
    assert text == "Brand new (attempt=2, why=x [2Jy)."


@pytest.mark.parametrize(
    ("kind", "data", "wanted"),
    [
        (
            "admitted",
            {"task": "Backup", "revision": 3, "cause": "cron", "scheduled_ms": T0 - 5000, "late_ms": 5000},
            "Task Backup (revision 3) was due at 2025-11-30T18:06:35Z by its schedule, and admitted 5s late."
            " It is queued.",
        ),
        (
            "admitted",
            {
                "task": "b",
                "revision": 1,
                "cause": "manual",
                "by": "Ann",
                "held_by": "overlap",
                "waits_for": OTHER,
            },
            "Ann started task b (revision 1) by hand. It is held: run feed5678 of the same task has not ended.",
        ),
        (
            "admitted",
            {
                "task": "b",
                "revision": 1,
                "cause": "boot",
                "held_by": "concurrency",
                "gate": "group:default:db",
            },
            "Task b (revision 1) was due because the machine booted. It is held: concurrency group db is full.",
        ),
        ("released", {"gate": "task:1"}, "There is room at the overlap limit of its task: it is queued."),
        (
            "completed",
            {"attempt": 1, "status": "failed", "exit_code": 3, "log_bytes": 1234, "log_dropped": 1},
            "Attempt 1 failed with exit code 3. It wrote 1,234 bytes of output; the log lacks 1 byte cut"
            " out of its middle.",
        ),
        (
            "completed",
            {"attempt": 2, "status": "timed_out", "signal": 15, "stopped_by": "timeout", "leftovers": 2},
            "Attempt 2 timed out with signal 15. The worker stopped it because its timeout had passed. It had left"
            " 2 processes behind; they were stopped.",
        ),
        (
            "completed",
            {"attempt": 1, "status": "failed", "reason": "start_failed: no such user", "log_bytes": 0},
            "Attempt 1 failed: its command could not be started (no such user). It wrote 0 bytes of output.",
        ),
        (
            "lost",
            {
                "attempt": 1,
                "reason": "not_running",
                "provider": "attestation",
                "proof": "tree_gone",
                "evidence_ms": T0,
            },
            "Attempt 1 is lost: its worker's journal showed at 2025-11-30T18:06:40Z that nothing of it runs (its"
            " process tree is gone).",
        ),
        (
            "failed",
            {"reason": "lost_retry_unsafe"},
            "The lost run is not run again and has failed: the task does not declare `safety`, so whether running"
            " it twice does harm is unknown.",
        ),
        (
            "retry_scheduled",
            {"cause": "lost", "next_attempt_ms": T0 + 10_000, "barriers": 1, "max_attempts": 3},
            "Its policy allows another attempt after a loss (1 of 3 attempts used): it is due at"
            " 2025-11-30T18:06:50Z, after a pause of 10s.",
        ),
        (
            "cancelled",
            {"reason": "replaced by a newer run", "by": "overlap", "unstarted": True},
            "A newer run of its task (`overlap: replace`) cancelled it (replaced by a newer run); no command of it"
            " was running.",
        ),
        (
            "timed_out",
            {"reason": "start_within", "unstarted": True},
            "It had not started in the time that `start_within` gives: it is timed out.",
        ),
    ],
)
def test_sentences_say_what_why_and_by_whom(kind, data, wanted):
    assert story.tell(Event(RUN, 1, T0, kind, data)) == wanted


TASK = Task("t1", "default", "backup", "files", 1, "d", T0)


def spec(**changes):
    return TaskSpec("backup", Command("text", text="true"), "/", **changes)


class Life:
    """A Run that the real rules move along, as its story would see it."""

    def __init__(self, definition, occupied=False):
        keys = admission.gate_keys(TASK, definition)
        occupants = (OTHER,) if occupied else ()
        self.draft = Draft(T0, {}, {key: Gate(key, 1, occupants) for key in keys})
        self.evidence = ()
        self.waits_for = occupants
        wish = admission.Admission(RUN, TASK, definition, "manual", by="ann")
        self.take(admission.admit(self.draft, wish))
        self.fence = Fence("w1", RUN, "", 1, "o", 1, 1, "td")

    def take(self, change):
        assert isinstance(change, Change), change
        self.draft.apply(change)
        return self

    @property
    def found(self) -> Aggregate:
        return self.draft.aggregates[RUN]

    def begin(self, facts=None):
        session = Session("w1", "s", 1, 1, "online", 1, T0 + MINUTE, "j", 1, 4, "host")
        self.take(dispatch.grant(self.found, session, dispatch.Want("o", "td"), 7, T0, MINUTE))
        self.take(starting(self.found, self.fence, T0, MINUTE))
        return self.take(running(self.found, self.renewed(), T0, MINUTE, facts or {"pid": 42}))

    def renewed(self):
        lease = self.found.lease
        return Fence("w1", RUN, "", 1, "o", lease.generation, lease.version, "td")

    def told(self):
        return [story.tell(event) for event in self.draft.events]

    def now(self, later=0):
        found = self.found
        attempts: tuple[Attempt, ...] = (found.attempt,)
        view = SimpleNamespace(
            run=found.run,
            attempts=attempts,
            lease=found.lease,
            events=(),
            evidence=self.evidence,
            late=0,
            waits_for=self.waits_for,
        )
        return story.now(view, T0 + later)


def test_a_held_run_names_what_holds_it():
    life = Life(spec(overlap=Overlap("queue", 3)), occupied=True)
    assert life.now()[0].startswith(
        "It is held by the overlap limit of its task: run feed5678 of the same task"
    )
    group = Life(spec(overlap=Overlap("allow"), concurrency="db"), occupied=True)
    assert group.now()[0] == (
        "It is held because concurrency group db is full (run feed5678 is in it). It goes on when a place is free."
    )


def test_a_queued_run_waits_for_a_slot_and_names_its_start_limit():
    told = Life(spec(start_within_ms=30 * MINUTE)).now()
    assert told[0] == "It is queued: attempt 1 waits for a free slot of a worker."
    assert any("Not started by 2025-11-30T18:36:40Z (in 30m), it is timed out." in line for line in told)


def test_a_running_run_is_told_with_worker_process_and_policy():
    life = Life(spec(timeout_ms=60 * MINUTE)).begin({"pid": 42, "digests": {"/srv/a.sh": "ab" * 32}})
    assert (
        "The command of attempt 1 runs as process 42. It read /srv/a.sh (sha256 abababababab…)."
        in life.told()
    )
    told = life.now(5 * MINUTE)
    assert told[0] == "Attempt 1 is running on worker w1 since 2025-11-30T18:06:40Z (5m ago)."
    assert any("(`timeout`)" in line for line in told)
    assert told[-1] == "Its policy: `safety` is not declared; one attempt, nothing is retried."


def test_an_unreachable_run_names_evidence_resolution_and_policy():
    """Case 6, and the reason this product exists: silence is no evidence, and the policy is visible."""
    life = Life(spec()).begin()
    life.draft.now_ms = T0 + 2 * MINUTE
    life.take(recovery.judge(life.found, None, T0 + 2 * MINUTE, 0.0))
    life.evidence = (
        Evidence(RUN, "", 1, "unknown", "attestation", T0 + 2 * MINUTE, "no such process entry"),
    )
    told = " ".join(life.now(7 * MINUTE))
    assert "It is unreachable since 2025-11-30T18:08:40Z (5m ago): worker w1 is silent" in told
    assert "Asked: its worker's journal, which answered “unknown” (no such process entry)" in told
    assert "It is resolved when the worker answers again" in told
    assert "it fails and is not run again: the task does not declare `safety`" in told
    assert "silent worker is not a dead job" in life.told()[-1]


def test_a_cancellation_that_is_not_confirmed_says_so():
    life = Life(spec()).begin()
    life.take(ending.cancel(life.found, "ann", "wrong\nday", T0))
    told = life.now(SECOND)
    assert any(
        "asked by ann at 2025-11-30T18:06:40Z (1s ago) (wrong day) and is not confirmed" in t for t in told
    )
    assert life.told()[-1].startswith(
        "Ann asked to cancel it (wrong day). Attempt 1 is past its start barrier"
    )


def test_a_lost_run_without_safety_says_why_it_is_not_retried():
    """Case 3: after the verdict the story names the missing declaration, and what would change it."""
    life = Life(spec()).begin()
    proof = Evidence(RUN, "", 1, "not_running", "attestation", T0 + 2 * MINUTE, "", "tree_gone", 1, 9)
    life.take(recovery.judge(life.found, proof, T0 + 2 * MINUTE, 0.0))
    assert "it will not run again: the task does not declare `safety`" in life.now()[0]
    life.take(retrying.settle_lost(life.found, T0 + 2 * MINUTE, 0.0))
    told = life.now()
    assert told[0].startswith("It has failed at 2025-11-30T18:08:40Z.")
    assert told[1].startswith("It is not retried: the task does not declare `safety`")
    assert (
        "`safety: idempotent` (or `deduplicated`), `lost` in `retry.when`, `retry.max_attempts` above 1"
        in told[2]
    )


def test_a_lost_run_that_may_run_again_waits_for_its_backoff():
    retry = Retry(3, ("failed", "lost"), Backoff(initial_ms=20_000))
    life = Life(spec(safety="idempotent", retry=retry)).begin()
    proof = Evidence(RUN, "", 1, "not_running", "attestation", T0 + 1, "", "boot_changed", 1, 9)
    life.take(recovery.judge(life.found, proof, T0 + 1, 0.0))
    life.take(retrying.settle_lost(life.found, T0 + 1, 0.0))
    told = life.now()
    assert told[0] == (
        "It waits for its backoff: attempt 2 is due at 2025-11-30T18:07:00Z (in 20s). Attempt 1 was lost."
    )
    assert "failures and losses are retried, up to 3 attempts in total (1 used)" in told[-1]


@pytest.mark.parametrize(
    ("retry", "wanted"),
    [
        (Retry(), "It is not retried: the task allows one attempt only (`retry.max_attempts` is 1)."),
        (Retry(3, ("lost",)), "It is not retried: the task's `retry.when` does not list `failed`."),
    ],
)
def test_a_failed_run_says_why_it_is_not_retried(retry, wanted):
    life = Life(spec(retry=retry, safety="idempotent")).begin()
    life.take(complete(life.found, life.renewed(), Result(exit_code=3), T0 + 1, 0.0))
    told = life.now()
    assert told[0] == "It has failed at 2025-11-30T18:06:40Z (exit code 3). A final run never changes."
    assert told[1] == wanted


def test_a_success_needs_no_explanation():
    life = Life(spec()).begin()
    life.take(complete(life.found, life.renewed(), Result(exit_code=0, log_bytes=12), T0 + 1, 0.0))
    assert life.now() == ("It has succeeded at 2025-11-30T18:06:40Z. A final run never changes.",)
    assert life.told()[-1] == "Attempt 1 succeeded. It wrote 12 bytes of output."
