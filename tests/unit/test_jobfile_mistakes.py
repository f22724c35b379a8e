"""Every mistake in a job file is found at its exact place, with its field, a stable code and a remedy."""

from __future__ import annotations

import pytest

from jobfile_support import MARK, good, in_task, only, read
from qinglong.limits import (
    ENV_PER_TASK,
    ERRORS_SHOWN,
    LABELS_PER_TASK,
    NAME_CHARS,
    TASKS_PER_SET,
    TRIGGERS_PER_TASK,
    VALUE_BYTES,
)

TASK_MISTAKES = [
    # kinds and empty values
    ("run:«", "run", "no_value"),
    ('run: «""', "run", "no_value"),
    ('run: «" "', "run", "no_value"),
    ("run: «[]", "run", "no_value"),
    ('run: [«""]', "run[0]", "no_value"),
    ("run: [a, «~]", "run[1]", "no_value"),
    ("run: [a, «[b]]", "run[1]", "wrong_kind"),
    ("run: {script: «[a]}", "run.script", "wrong_kind"),
    ("run: {script: «~/a}", "run.script", "path"),
    ("run: {script: a, args: «b}", "run.args", "wrong_kind"),
    ("run: {script: a, «shell: b}", "run.shell", "unknown_field"),
    ("shell: «zsh", "shell", "choice"),
    ("run: [a]\n«shell: bash", "shell", "shell_unused"),
    # durations
    ("timeout: «30", "timeout", "duration_without_unit"),
    ("timeout: «30 seconds", "timeout", "duration_unreadable"),
    ("timeout: «0s", "timeout", "duration_too_short"),
    ("timeout: «3661d", "timeout", "duration_too_long"),
    ("timeout: «~", "timeout", "no_value"),
    ("timeout: «[1s]", "timeout", "wrong_kind"),
    ("start_within: «5", "start_within", "duration_without_unit"),
    ("deadline: «1x", "deadline", "duration_unreadable"),
    # policy
    ("safety: «yes", "safety", "choice"),
    ("retry: «3", "retry", "wrong_kind"),
    ("«retry: {}", "retry.max_attempts", "missing_field"),
    ("retry: {max_attempts: «0}", "retry.max_attempts", "number"),
    ("retry: {max_attempts: «101}", "retry.max_attempts", "number"),
    ("retry: {max_attempts: «010}", "retry.max_attempts", "number"),
    ("retry: {max_attempts: «2.5}", "retry.max_attempts", "number"),
    ('retry: {max_attempts: «"2"}', "retry.max_attempts", "number"),
    ("retry: {max_attempts: 2, when: «failed}", "retry.when", "wrong_kind"),
    ("retry: {max_attempts: 2, when: «[]}", "retry.when", "no_value"),
    ("retry: {max_attempts: 2, when: [«crashed]}", "retry.when[0]", "choice"),
    ("retry: {max_attempts: 2, when: [failed, «failed]}", "retry.when[1]", "repeated"),
    ("retry: {max_attempts: 2, when: [failed, timed_out, «lost]}", "retry.when[2]", "unsafe_retry"),
    ("retry: {max_attempts: 2, backoff: {initial: «0s}}", "retry.backoff.initial", "duration_too_short"),
    ("retry: {max_attempts: 2, backoff: {initial: «999ms}}", "retry.backoff.initial", "duration_too_short"),
    ("retry: {max_attempts: 2, backoff: {«first: 0}}", "retry.backoff.first", "unknown_field"),
    ("retry: {max_attempts: 2, backoff: {max: «25h}}", "retry.backoff.max", "duration_too_long"),
    ("retry: {max_attempts: 2, backoff: {factor: «0.5}}", "retry.backoff.factor", "number"),
    ("retry: {max_attempts: 2, backoff: {factor: «101}}", "retry.backoff.factor", "number"),
    ("retry: {max_attempts: 2, backoff: {factor: «.inf}}", "retry.backoff.factor", "number"),
    ("retry: {max_attempts: 2, backoff: {factor: «.nan}}", "retry.backoff.factor", "number"),
    ("retry: {max_attempts: 2, backoff: {initial: 1m, max: «1s}}", "retry.backoff.max", "backoff"),
    ("overlap: «queue", "overlap", "choice"),
    ("overlap: {queue: «0}", "overlap.queue", "number"),
    ("overlap: {queue: «1001}", "overlap.queue", "number"),
    ("«overlap: {}", "overlap.queue", "missing_field"),
    ("missed: «all", "missed", "choice"),
    ("missed: {all: «1001}", "missed.all", "number"),
    ("on_lease_loss: «stop", "on_lease_loss", "choice"),
    ("on_lease_loss: {stop_after: «2}", "on_lease_loss.stop_after", "duration_without_unit"),
    ("stop: {signal: «SIGTREM}", "stop.signal", "signal"),
    ("stop: {signal: «15}", "stop.signal", "signal"),
    ("stop: {signal: «KILL}", "stop.signal", "signal"),
    ("stop: {signal: «SIGSTOP}", "stop.signal", "signal"),
    ("stop: {grace: «2h}", "stop.grace", "duration_too_long"),
    ("concurrency: «db", "concurrency", "unknown_group"),
    # surroundings
    ("cwd: «~/x", "cwd", "path"),
    ("cwd: «$HOME", "cwd", "path"),
    ('cwd: «""', "cwd", "no_value"),
    ("user: «1000", "user", "user"),
    ("user: «a b", "user", "user"),
    ("env: «[A]", "env", "wrong_kind"),
    ("env: {A: «}", "env.A", "no_value"),
    ("env: {A: «[1]}", "env.A", "wrong_kind"),
    ('env: {A: «"a\\0b"}', "env.A", "character"),
    ("env: {«1A: x}", "env.1A", "env_name"),
    ("env: {«A-B: x}", "env.A-B", "env_name"),
    ("env: {«É: x}", "env.'É'", "env_name"),
    ("env: {«QL_RUN_ID: x}", "env.QL_RUN_ID", "reserved_name"),
    ("env: {«IFS: x}", "env.IFS", "reserved_name"),
    ("env: {«_: x}", "env.'_'", "reserved_name"),
    ("env_file: [«~]", "env_file[0]", "no_value"),
    ("env_file: «{a: b}", "env_file", "wrong_kind"),
    ("secrets: {A: «x}", "secrets.A", "wrong_kind"),
    ("secrets: {«A: {}}", "secrets.A.file", "missing_field"),
    ("secrets: {«QL_X: {file: a}}", "secrets.QL_X", "reserved_name"),
    ("env: {A: x}\nsecrets: «{A: {file: a}}", "secrets", "env_name"),
    ("placement: {«require: {a: b}}", "placement.require", "unknown_field"),
    ("placement: {required: {a: «[]}}", "placement.required.a", "no_value"),
    ('placement: {required: {a: [«""]}}', "placement.required.a[0]", "no_value"),
    ("labels: {«a b: c}", "labels.'a b'", "name"),
    ("labels: {a: «{}}", "labels.a", "wrong_kind"),
    ("notes: «[a]", "notes", "wrong_kind"),
    # triggers
    ('schedule: «"61 * * * *"', "schedule", "cron_invalid"),
    ('schedule: «"* * * *"', "schedule", "cron_invalid"),
    ('schedule: «"0 0 31 2 *"', "schedule", "cron_never_fires"),
    ('schedule: «"@reboot"', "schedule", "cron_invalid"),
    ("schedule: «{every: 5m}", "schedule", "wrong_kind"),
    ("«schedule: 0 3 * * *\ntriggers: []", "schedule", "trigger_kind"),
    ("triggers: «{id: a, every: 5m}", "triggers", "wrong_kind"),
    ("triggers: [«a]", "triggers[0]", "wrong_kind"),
    ("triggers: [«{every: 5m}]", "triggers[0].id", "missing_field"),
    ("triggers: [{id: «-a, every: 5m}]", "triggers[0].id", "name"),
    ("triggers: [«{id: a}]", "triggers[0]", "trigger_kind"),
    ('triggers: [«{id: a, every: 5m, cron: "* * * * *"}]', "triggers[0]", "trigger_kind"),
    ("triggers: [{id: a, every: 5m}, {id: «a, boot: true}]", "triggers[1].id", "duplicate_trigger"),
    ("triggers: [{id: a, every: «999ms}]", "triggers[0].every", "duration_too_short"),
    ('triggers: [{id: a, cron: «"1 2 3"}]', "triggers[0].cron", "cron_invalid"),
    ("triggers: [{id: a, boot: «false}]", "triggers[0].boot", "choice"),
    ("triggers: [{id: a, boot: «yes}]", "triggers[0].boot", "choice"),
    ("triggers: [{id: a, every: 5m, «timezone: UTC}]", "triggers[0].timezone", "timezone_unused"),
    ("triggers: [{id: a, boot: true, missed: «never}]", "triggers[0].missed", "choice"),
    ('triggers: [{id: a, cron: "0 3 * * *", timezone: «Foo/Bar}]', "triggers[0].timezone", "zone_unknown"),
    ("triggers: [{id: a, at: «tomorrow}]", "triggers[0].at", "moment"),
    ("triggers: [{id: a, at: «2027-01-31}]", "triggers[0].at", "moment"),
    ("triggers: [{id: a, at: «2027-02-30T09:00}]", "triggers[0].at", "moment"),
    ("triggers: [{id: a, at: «1969-01-01T00:00}]", "triggers[0].at", "moment"),
    ("triggers: [{id: a, at: «2027-01-31T09:00+25:00}]", "triggers[0].at", "moment"),
    (
        "triggers: [{id: a, at: «2027-03-28T02:30, timezone: Europe/Berlin}]",
        "triggers[0].at",
        "moment_skipped",
    ),
    (
        "triggers: [{id: a, at: «2027-10-31T02:30, timezone: Europe/Berlin}]",
        "triggers[0].at",
        "moment_repeated",
    ),
    ("triggers: [{id: a, «after: {task: b}}]", "triggers[0].after", "unsupported"),
    ("triggers: [{id: a, «webhook: {}}]", "triggers[0].webhook", "unsupported"),
    # names that other tools use
    ("«environment: {A: b}", "environment", "unknown_field"),
    ("«timout: 5m", "timout", "unknown_field"),
]

FILE_MISTAKES = [
    ("version: «2\ntasks: {}", "version", "version"),
    ("version: «1.0\ntasks: {}", "version", "version"),
    ("version:«\ntasks: {}", "version", "no_value"),
    ('version: «"1"\ntasks: {}', "version", "number"),
    ("«tasks: {}", "version", "missing_field"),
    ("«version: 1", "tasks", "missing_field"),
    ("version: 1\ntasks:«", "tasks", "no_value"),
    ("version: 1\ntasks: «[]", "tasks", "wrong_kind"),
    ("version: 1\nproject: «a b\ntasks: {}", "project", "name"),
    ("version: 1\ntimezone: «Foo/Bar\ntasks: {}", "timezone", "zone_unknown"),
    ("version: 1\nconcurrency_groups: {a: «0}\ntasks: {}", "concurrency_groups.a", "number"),
    ("version: 1\nconcurrency_groups: {«-a: 1}\ntasks: {}", "concurrency_groups.'-a'", "name"),
    ("version: 1\ntasks: {}\n«workflows: {a: {}}", "workflows", "unsupported"),
    ("version: 1\ntasks: {}\n«jobs: {}", "jobs", "unknown_field"),
    ("version: 1\ntasks: {«a/b: {run: x}}", "tasks.'a/b'", "name"),
    ("version: 1\ntasks: {a: «x}", "tasks.a", "wrong_kind"),
    ("version: 1\ntasks: {a: «}", "tasks.a", "no_value"),
    ("version: 1\ntasks: {«a: {}}", "tasks.a.run", "missing_field"),
    ("version: 1\ntasks: {a: {run: x}, «a: {run: y}}", "tasks.a", "duplicate_key"),
    ("version: 1\ndefaults: {«run: x}\ntasks: {}", "defaults.run", "unknown_field"),
    (
        "version: 1\ndefaults: {env: {A: b}, secrets: «{A: {file: x}}}\ntasks: {}",
        "defaults.secrets",
        "env_name",
    ),
    ("version: 1\ndefaults: {timeout: «5}\ntasks: {}", "defaults.timeout", "duration_without_unit"),
    (
        "version: 1\ndefaults: {retry: {max_attempts: 2, when: [«lost]}}\ntasks: {a: {run: x}, b: {run: x}}",
        "defaults.retry.when[0]",
        "unsafe_retry",
    ),
    ("«[]", "", "wrong_kind"),
    ("«hello", "", "wrong_kind"),
]


@pytest.mark.parametrize(("fields", "field", "code"), TASK_MISTAKES, ids=[row[0] for row in TASK_MISTAKES])
def test_mistake_in_a_task(fields, field, code):
    problem = only(in_task(fields))
    assert (problem.field.removeprefix("tasks.job."), problem.code) == (field, code)


@pytest.mark.parametrize(("text", "field", "code"), FILE_MISTAKES, ids=[row[0] for row in FILE_MISTAKES])
def test_mistake_in_a_file(text, field, code):
    problem = only(text)
    assert (problem.field, problem.code) == (field, code)


@pytest.mark.parametrize(
    ("fields", "remedy"),
    [
        ("«timout: 5m", "did you mean timeout?"),
        ("«Retry: {}", "did you mean retry?"),
        ("«command: x", "run:"),
        ("«environment: {}", "env:"),
        ("«enabled: false", "ql pause"),
        ("«wibble: 1", "begin with x-"),
        ("timeout: «30", "30s"),
        ("retry: {max_attempts: 2, when: [«faild]}", "did you mean failed?"),
        ("retry: {max_attempts: 2, when: [«lost]}", "safety: idempotent"),
        ("stop: {signal: «SIGTREM}", "SIGTERM"),
        ("stop: {signal: «2}", "write SIGINT"),
        ("stop: {signal: «9}", "SIGTERM"),
        ("env: {A: «}", 'A: ""'),
        ('schedule: «"@reboot"', "boot: true"),
        ("schedule: «[a]", "triggers"),
        ("triggers: [{id: a, at: «2027-03-28T02:30, timezone: Europe/Berlin}]", "2027-03-28T03:30"),
        ("triggers: [{id: a, at: «2027-10-31T02:30, timezone: Europe/Berlin}]", "2027-10-31T02:30:00+01:00"),
        ("triggers: [{id: a, boot: true, missed: «al}]", "{all: 50}"),
        ('triggers: [{id: a, cron: "0 3 * * *", timezone: «berlin}]', "Europe/Berlin"),
        ('triggers: [{id: a, cron: "0 3 * * *", timezone: «Europe/Belin}]', "Europe/Berlin"),
        ('triggers: [{id: a, cron: "0 3 * * *", timezone: «New York}]', "America/New_York"),
        ('triggers: [{id: a, cron: "0 3 * * *", timezone: «right/UTC}]', "UTC"),
    ],
)
def test_the_remedy_names_what_was_meant(fields, remedy):
    assert remedy in only(in_task(f"run: echo\n{fields}")).remedy


def test_case_42_four_fields_and_odd_steps_get_a_clear_answer():
    assert "4 fields" in only(in_task('schedule: «"* * * *"')).message
    text = in_task('schedule: "0 1/4 * * *"')
    found, problems = read(text)
    assert found or problems[0].remedy


def test_an_unknown_group_is_compared_with_those_of_the_file():
    text = in_task("concurrency: «DBS", "concurrency_groups: {db: 1}\n")
    assert only(text).remedy == "did you mean db?"


def test_both_places_of_a_duplicate_are_named():
    problem = only(in_task("timeout: 1m\nnotes: a\n«timeout: 2m"))
    assert "line 5" in problem.message
    twice = only(in_task("triggers:\n  - {id: a, every: 5m}\n  - {id: «a, every: 6m}"))
    assert "line 6" in twice.message


def test_a_retry_from_the_defaults_that_is_unsafe_names_the_tasks_once():
    text = "version: 1\ndefaults: {retry: {max_attempts: 2, when: [«lost]}}\ntasks:\n"
    text += (
        "".join(f"  t{number}: {{run: x}}\n" for number in range(9)) + "  ok: {run: x, safety: idempotent}\n"
    )
    assert "'t0', 't1', 't2', …" in only(text).remedy


@pytest.mark.parametrize(
    "fields",
    [
        f"notes: {MARK}{'x' * VALUE_BYTES}",
        f"notes: {MARK}{'é' * (VALUE_BYTES // 2)}",
        f"env: {{A: {MARK}{'x' * (VALUE_BYTES - 2)}}}",
        f"run: {MARK}{'x' * VALUE_BYTES}",
        f"run: [a, {MARK}{'x' * VALUE_BYTES}]",
    ],
    ids=["notes", "two-byte characters", "env with its name", "run", "argument"],
)
def test_i10_a_value_that_execve_would_refuse_is_refused_here(fields):
    problem = only(in_task(fields))
    assert problem.code == "too_long"
    assert len(str(problem)) < 300


def test_i10_the_longest_values_pass():
    longest = "x" * (VALUE_BYTES - 1)
    assert good(in_task(f"notes: {longest}\nenv: {{A: {longest[:-2]}}}"))


@pytest.mark.parametrize("name", ["a" * NAME_CHARS, "0", "A.b-c_d"])
def test_lawful_names(name):
    assert good(f"version: 1\ntasks: {{{name}: {{run: x}}}}").tasks[0].name == name


@pytest.mark.parametrize(
    ("name", "reason", "remedy"),
    [
        ('""', "is empty", "beginning with a letter"),
        ("a" * (NAME_CHARS + 1), "more than the 128", "use A-Z"),
        ("-a", "begins with '-'", "as a"),
        ("a b", "holds ' '", "as a-b"),
        ("naïve", "holds 'ï'", "as na-ve"),
        ('"a\\tb"', "holds '\\t'", "as a-b"),
    ],
)
def test_a_refused_name_is_explained(name, reason, remedy):
    problem = only(f"version: 1\ntasks: {{«{name}: {{run: x}}}}")
    assert reason in problem.message
    assert remedy in problem.remedy


@pytest.mark.parametrize(
    "fields",
    [
        "env: «{" + ", ".join(f"A{n}: x" for n in range(ENV_PER_TASK + 1)) + "}",
        "labels: «{" + ", ".join(f"a{n}: x" for n in range(LABELS_PER_TASK + 1)) + "}",
        "triggers: «[" + ", ".join(f"{{id: a{n}, every: 5m}}" for n in range(TRIGGERS_PER_TASK + 1)) + "]",
    ],
    ids=["env", "labels", "triggers"],
)
def test_i10_too_many_of_a_kind(fields):
    assert only(in_task(fields)).code == "too_many"


def test_i10_defaults_count_too():
    env = ", ".join(f"A{n}: x" for n in range(ENV_PER_TASK))
    text = in_task("run: echo\nenv: «{B: x}", f"defaults: {{env: {{{env}}}}}\n")
    assert only(text).code == "too_many"


def test_i10_too_many_tasks():
    tasks = "\n".join(f"  t{n}: {{run: x}}" for n in range(TASKS_PER_SET + 1))
    assert only(f"version: 1\ntasks:\n  «{tasks[2:]}").code == "too_many"


def test_i10_defaults_cannot_blow_up_what_is_stored():
    text = "x" * 100_000
    tasks = "".join(f"  t{n}: {{run: x}}\n" for n in range(800))
    found, problems = read(f"version: 1\ndefaults: {{env: {{A: {text}}}}}\ntasks:\n{tasks}")
    assert found is None
    assert [problem.code for problem in problems] == ["too_large"]
    assert problems[0].field.startswith("tasks.t6")


def test_i10_one_task_cannot_be_larger_than_a_request():
    words = ", ".join(["x" * 100_000] * 11)
    assert only(f"version: 1\ntasks:\n  «job: {{run: [{words}]}}").code == "too_large"


def test_all_mistakes_are_reported_at_once_and_in_file_order():
    text = in_task(
        """
        retry: {max_attempts: 0, when: [x], backoff: {initial: 0s}}
        labels: {a b: c}
        run: ""
        timeout: 5
        schedule: x
        wibble: 1
        """
    )
    found, problems = read(f'{text}zzz: 1\nproject: "-"\n')
    assert found is None
    places = [(problem.line, problem.column) for problem in problems]
    assert places == sorted(places)
    codes = [problem.code for problem in problems]
    assert codes == [
        *("number", "choice", "duration_too_short", "name", "no_value", "duration_without_unit"),
        *("cron_invalid", "unknown_field", "unknown_field", "name"),
    ]
    assert all(problem.remedy for problem in problems)


def test_i10_more_problems_than_can_be_shown_are_counted():
    tasks = "".join(f"  t{n}: {{run: x, timeout: 5}}\n" for n in range(5_000))
    _, problems = read(f"version: 1\ntasks:\n{tasks}")
    assert len(problems) == ERRORS_SHOWN
    assert problems[0].field == "tasks.t0.timeout"
    assert problems[-1].code == "more_problems"
    assert str(5_000 - ERRORS_SHOWN + 1) in problems[-1].message


def test_a_problem_can_be_printed_as_one_line_without_control_characters():
    problem = only(in_task('safety: «"\\e[31m\\nx"'))
    line = str(problem)
    assert line.startswith("/jobs/file.yaml:5:13: tasks.job.safety: ")
    assert line.isprintable()
    assert " — " in line
    _, problems = read('version: 1\ntasks: {a: {run: x, secrets: {"\\e[2J": {}}}}', path="a\nb")
    assert all(str(problem).isprintable() for problem in problems)


def test_a_missing_script_and_env_file_are_found_where_they_are_named():
    def missing(_path: str) -> bool:
        return False

    assert only(in_task("run: {script: «a.sh}"), file_exists=missing).code == "no_such_file"
    problem = only(in_task("env_file: [«a.env]"), file_exists=missing)
    assert problem.code == "no_such_file"
    assert "/jobs/a.env" in problem.message


def test_a_machine_zone_that_is_none_asks_for_one_in_the_file():
    _, problems = read("version: 1\ntasks: {}", machine_zone="localtime")
    assert [(problem.code, problem.field, problem.line) for problem in problems] == [
        ("zone_unknown", "timezone", 0)
    ]
    assert good("version: 1\ntimezone: UTC\ntasks: {}", machine_zone="localtime")
