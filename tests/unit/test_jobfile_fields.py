"""Every field of the job file, written well."""

from __future__ import annotations

import hashlib
import json

import pytest

from jobfile_support import PATH, good, in_task, task
from qinglong.domain.definitions import (
    Backoff,
    Command,
    Missed,
    OnLeaseLoss,
    Overlap,
    Placement,
    Retry,
    Secret,
    Stop,
    TaskSpec,
    TriggerSpec,
    digest,
)
from qinglong.limits import DAY, HOUR, MINUTE, SECOND
from qinglong.wire.jobfile.document import FILE
from qinglong.wire.jobfile.task import SHARED, TASK
from qinglong.wire.jobfile.triggers import TRIGGER

AWKWARD = "a'b\"c$(id)\n${HOME}`x`é"


def test_a_file_needs_only_a_version_and_tasks():
    found = good("version: 1\ntasks: {}")
    assert (found.project, found.concurrency_groups, found.tasks) == ("default", {}, ())


def test_the_least_task_gets_the_documented_defaults():
    assert task("run: echo") == TaskSpec(name="job", command=Command("text", text="echo"), cwd="/jobs")


def test_the_head_of_the_file():
    found = good("version: 1\nproject: shop\nconcurrency_groups: {db: 1, net: 10000}\ntasks: {}")
    assert found.project == "shop"
    assert found.concurrency_groups == {"db": 1, "net": 10_000}


@pytest.mark.parametrize(
    ("fields", "name", "expected"),
    [
        ("run: a b", "command", Command("text", text="a b")),
        ("run: 5", "command", Command("text", text="5")),
        ("run: |\n  a\n  b\n", "command", Command("text", text="a\nb\n")),
        ("run: [a, 0755, on, '']", "command", Command("argv", argv=("a", "0755", "on", ""))),
        ("run: {script: a.py}", "command", Command("script", script="/jobs/a.py")),
        ("run: {script: /b.sh, args: [1, x]}", "command", Command("script", script="/b.sh", args=("1", "x"))),
        ("shell: bash", "command", Command("text", text="echo", shell="bash")),
        ("shell: sh", "command", Command("text", text="echo", shell="sh")),
        ("timeout: 2h", "timeout_ms", 2 * HOUR),
        ("timeout: none", "timeout_ms", None),
        ("start_within: 30m", "start_within_ms", 30 * MINUTE),
        ("deadline: 1d", "deadline_ms", DAY),
        ("safety: idempotent", "safety", "idempotent"),
        ("safety: deduplicated", "safety", "deduplicated"),
        ("retry: {max_attempts: 3}", "retry", Retry(3)),
        ("retry: {max_attempts: 1, when: [failed]}", "retry", Retry(1, ("failed",))),
        ("overlap: replace", "overlap", Overlap("replace")),
        ("overlap: allow", "overlap", Overlap("allow")),
        ("overlap: {queue: 3}", "overlap", Overlap("queue", 3)),
        ("missed: skip", "missed", Missed("skip")),
        ("missed: {all: 50}", "missed", Missed("all", 50)),
        ("on_lease_loss: keep", "on_lease_loss", OnLeaseLoss()),
        ("on_lease_loss: {stop_after: 2m}", "on_lease_loss", OnLeaseLoss("stop_after", 2 * MINUTE)),
        ("stop: {signal: SIGINT}", "stop", Stop("SIGINT")),
        ("stop: {signal: hup, grace: 1h}", "stop", Stop("SIGHUP", HOUR)),
        ("cwd: /srv", "cwd", "/srv"),
        ("cwd: a/./b", "cwd", "/jobs/a/b"),
        ("cwd: ../a", "cwd", "/jobs/../a"),
        ("user: backup", "user", "backup"),
        (
            "env: {A: 0755, B: on, C: 1:30, D: '~', E: ''}",
            "env",
            {"A": "0755", "B": "on", "C": "1:30", "D": "~", "E": ""},
        ),
        ("env_file: a.env", "env_file", ("/jobs/a.env",)),
        ("env_file: [a.env, /b.env]", "env_file", ("/jobs/a.env", "/b.env")),
        (
            "secrets: {P: {file: /etc/p}, Q: {file: q}}",
            "secrets",
            {"P": Secret("/etc/p"), "Q": Secret("/jobs/q")},
        ),
        ("placement: {required: {arch: [a, b]}}", "placement", Placement(required={"arch": ("a", "b")})),
        ("placement: {preferred: {disk: ssd}}", "placement", Placement(preferred={"disk": ("ssd",)})),
        ("labels: {team: ops, n: 1}", "labels", {"team": "ops", "n": "1"}),
        ("notes: 'x: y'", "notes", "x: y"),
        ("x-own: {anything: [1]}", "labels", {}),
    ],
)
def test_field(fields, name, expected):
    assert getattr(task(fields), name) == expected


def test_a_retry_may_name_lost_when_the_task_says_that_it_is_safe():
    spec = task(
        """
        safety: idempotent
        retry:
          max_attempts: 100
          when: [lost, failed, timed_out]
          backoff: {initial: 1s, factor: 1.5, max: 24h}
        """
    )
    assert spec.retry == Retry(100, ("lost", "failed", "timed_out"), Backoff(SECOND, 1.5, DAY))


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("{}", Backoff()),
        ("{initial: 30m}", Backoff(30 * MINUTE, 2.0, 30 * MINUTE)),
        ("{max: 5s}", Backoff(5 * SECOND, 2.0, 5 * SECOND)),
        ("{factor: 1}", Backoff(factor=1.0)),
    ],
)
def test_case_28_the_parts_of_a_backoff_that_are_left_out_fit_the_given_ones(written, expected):
    spec = task(f"retry: {{max_attempts: 2, backoff: {written}}}")
    assert spec.retry.backoff == expected
    assert spec.retry.backoff.initial_ms <= spec.retry.backoff.max_ms


def test_a_task_counts_in_a_group_of_the_file():
    assert task("concurrency: db", "concurrency_groups: {db: 2}\n").concurrency == "db"


def test_schedule_is_one_cron_trigger_in_the_zone_of_the_file():
    spec = task('schedule: "0 3 * * *"\nmissed: skip', "timezone: Europe/Berlin\n")
    zone = "Europe/Berlin"
    assert spec.triggers == (
        TriggerSpec("schedule", "cron", expr="0 3 * * *", zone=zone, missed=Missed("skip")),
    )


@pytest.mark.parametrize("zone", ["EST5EDT", "Asia/Calcutta", "UTC"])
def test_case_45_zone_aliases_are_kept_as_written(zone):
    assert task('schedule: "0 3 * * *"', f"timezone: {zone}\n").triggers[0].zone == zone


def test_without_a_zone_in_the_file_the_machine_decides():
    assert task('schedule: "0 3 * * *"', machine_zone="Asia/Tokyo").triggers[0].zone == "Asia/Tokyo"


def test_every_kind_of_trigger():
    spec = task(
        """
        missed: {all: 2}
        triggers:
          - {id: work, cron: "*/10 8-18 * * 1-5", timezone: Asia/Tokyo}
          - {id: ping, every: 15m, missed: skip}
          - {id: once, at: 2027-01-31T09:00}
          - {id: there, at: "2027-01-31 09:00:30", timezone: America/New_York}
          - {id: exact, at: 2027-01-31T09:00+01:00, x-why: meeting}
          - {id: zulu, at: 2027-01-31T09:00Z}
          - {id: start, boot: true}
        """,
        "timezone: Europe/Berlin\n",
    )
    two, nine = Missed("all", 2), 1_801_382_400_000
    assert spec.triggers == (
        TriggerSpec("work", "cron", expr="*/10 8-18 * * 1-5", zone="Asia/Tokyo", missed=two),
        TriggerSpec("ping", "every", every_ms=15 * MINUTE, missed=Missed("skip")),
        TriggerSpec("once", "at", zone="Europe/Berlin", at_ms=nine, missed=two),
        TriggerSpec("there", "at", zone="America/New_York", at_ms=nine + 6 * HOUR + 30 * SECOND, missed=two),
        TriggerSpec("exact", "at", zone="Europe/Berlin", at_ms=nine, missed=two),
        TriggerSpec("zulu", "at", zone="Europe/Berlin", at_ms=nine + HOUR, missed=two),
        TriggerSpec("start", "boot", missed=two),
    )


def test_case_36_a_rare_schedule_is_accepted():
    assert task('schedule: "0 0 29 2 *"').triggers[0].expr == "0 0 29 2 *"


def test_case_38_day_of_month_and_day_of_week_together_are_accepted():
    assert task('schedule: "0 0 13 * 5"').triggers[0].expr == "0 0 13 * 5"


def test_defaults_fill_what_a_task_leaves_out_and_merge_names():
    found = good(
        """
version: 1
defaults:
  shell: bash
  timeout: 1h
  retry: {max_attempts: 5}
  cwd: /srv
  env: {A: default, B: default}
  labels: {team: ops}
  secrets: {S: {file: /s}, T: {file: /t}}
tasks:
  plain: {run: a}
  own:
    run: a
    shell: sh
    timeout: none
    retry: {max_attempts: 1}
    cwd: here
    env: {B: own, S: open}
    labels: {team: dev, kind: x}
    secrets: {A: {file: /a}}
  argv: {run: [a]}
"""
    )
    plain, own, argv = found.tasks
    assert plain.command.shell == "bash"
    assert (plain.timeout_ms, plain.retry.max_attempts, plain.cwd) == (HOUR, 5, "/srv")
    assert plain.env == {"A": "default", "B": "default"}
    assert plain.secrets.keys() == {"S", "T"}
    assert own.command.shell == "sh"
    assert (own.timeout_ms, own.retry.max_attempts, own.cwd) == (None, 1, "/jobs/here")
    assert own.env == {"B": "own", "S": "open"}
    assert own.labels == {"team": "dev", "kind": "x"}
    assert own.secrets == {"T": Secret("/t"), "A": Secret("/a")}
    assert argv.command == Command("argv", argv=("a",))


def test_case_58_an_awkward_value_keeps_its_exact_text():
    text = good(in_task(f"env: {{V: {json.dumps(AWKWARD)}}}")).tasks[0].env["V"]
    assert hashlib.sha256(text.encode()).digest() == hashlib.sha256(AWKWARD.encode()).digest()
    block = task("env:\n  V: |-\n    a'b\"c$(id)\n    ${HOME}`x`é").env["V"]
    assert block == AWKWARD


def test_a_default_that_is_spelt_out_is_no_new_revision():
    spelt = """
        shell: sh
        timeout: none
        retry: {max_attempts: 1, when: [failed, timed_out], backoff: {initial: 10s, factor: 2, max: 10m}}
        overlap: skip
        missed: latest
        on_lease_loss: keep
        stop: {signal: TERM, grace: 10s}
        placement: {}
        labels: {}
        cwd: .
        triggers: [{id: schedule, cron: "0 3 * * *", missed: latest, timezone: UTC}]
        """
    assert digest(task(spelt)) == digest(task('schedule: "0 3 * * *"'))


def test_the_zone_of_the_file_does_not_change_triggers_that_have_no_time_of_day():
    fields = "triggers: [{id: a, every: 5m}, {id: b, boot: true}]"
    assert digest(task(fields)) == digest(task(fields, "timezone: Asia/Tokyo\n"))


@pytest.mark.parametrize("field", sorted(TASK))
def test_the_example_in_every_remedy_is_a_lawful_task_field(field):
    group = "concurrency_groups: {db: 1}\n" if field == "concurrency" else ""
    assert task(TASK[field].example, group)


@pytest.mark.parametrize("field", sorted(SHARED))
def test_the_example_in_every_remedy_is_a_lawful_default(field):
    group = "concurrency_groups: {db: 1}\n" if field == "concurrency" else ""
    example = SHARED[field].example
    assert good(f"version: 1\n{group}defaults:\n  {example}\ntasks: {{job: {{run: a}}}}")


@pytest.mark.parametrize("field", ["cron", "every", "at", "boot"])
def test_the_example_in_every_remedy_is_a_lawful_trigger(field):
    assert task(f"triggers:\n  - id: a\n    {TRIGGER[field].example}")


@pytest.mark.parametrize(
    "field", ["version", "project", "timezone", "concurrency_groups", "defaults", "tasks"]
)
def test_the_example_in_every_remedy_is_a_lawful_file_field(field):
    lines = {"version": "version: 1", "tasks": "tasks: {}"} | {field: FILE[field].example}
    assert good("\n".join(lines.values()))


def test_relative_paths_count_from_the_folder_of_the_file():
    fields = "run: {script: s.sh}\nenv_file: [e]\nsecrets: {S: {file: f}}"
    spec = task(fields, path="/etc/ql/../jobs/x.yaml")
    assert spec.command.script == "/etc/jobs/s.sh"
    assert spec.env_file == ("/etc/jobs/e",)
    assert spec.secrets["S"].file == "/etc/jobs/f"


def test_a_relative_job_file_gives_absolute_paths(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert task("run: echo", path="sub/x.yaml").cwd == f"{tmp_path}/sub"
    assert task("run: echo", path="-").cwd == str(tmp_path)


def test_files_are_looked_up_only_when_asked():
    fields = "run: {script: s.sh}\nenv_file: [e]"
    asked: list[str] = []

    def exists(path: str) -> bool:
        asked.append(path)
        return True

    assert task(fields, file_exists=exists)
    assert asked == ["/jobs/s.sh", "/jobs/e"]
    assert PATH.startswith("/jobs/")
