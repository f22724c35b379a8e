"""Logs that leak nothing and break on nothing; metrics by the naming rules, whose library comes late."""

from __future__ import annotations

import io
import json
import logging
import subprocess
import sys

import pytest

from qinglong.observability import metrics
from qinglong.observability.logs import HumanFormatter, JsonFormatter, configure

SECRET = "s3cret-0123456789abcdefghijklmnopqrstuvw"


@pytest.fixture
def log():
    """A logger whose output is read by ``lines``; the root logger is put back."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield logging.getLogger("qinglong.test")
    root.handlers[:], root.level = handlers, level
    logging.getLogger("qinglong.test").setLevel(logging.NOTSET)
    root.setLevel(level)


def written(*, as_json, work, level=logging.INFO):
    stream = io.StringIO()
    configure(json=as_json, level=level, stream=stream, conceal=(SECRET,))
    work()
    return stream.getvalue()


def test_json_is_one_object_a_line(log):
    text = written(as_json=True, work=lambda: log.info("run %s\nstarted", "r1", extra={"run": "r1", "n": 2}))
    assert text.count("\n") == 1
    found = json.loads(text)
    assert found.pop("time").endswith("Z") and len(text.split('"')[3]) == len("2026-11-30T18:00:00.000Z")
    assert found == {
        "level": "info",
        "logger": "qinglong.test",
        "message": "run r1\nstarted",
        "run": "r1",
        "n": 2,
    }


def test_an_exception_is_one_field(log):
    def fail():
        try:
            raise ValueError("broken")
        except ValueError:
            log.exception("it failed")

    found = json.loads(written(as_json=True, work=fail))
    assert found["message"] == "it failed" and found["exception"].endswith("ValueError: broken")
    text = written(as_json=False, work=fail)
    assert "it failed\nTraceback" in text and text.endswith("ValueError: broken\n")


@pytest.mark.parametrize("as_json", [True, False])
def test_no_secret_reaches_a_log(log, as_json):
    def leak():
        log.info("token %s", SECRET)
        log.info("x", extra={"headers": {"Authorization": f"Bearer {SECRET}"}})
        log.info("authorization: bearer OtherSecretValue123, and more")
        try:
            raise ValueError(SECRET)
        except ValueError:
            log.exception("failed")

    text = written(as_json=as_json, work=leak)
    assert SECRET not in text and "OtherSecretValue123" not in text
    assert "and more" in text and text.count("[concealed]") == 4


@pytest.mark.parametrize("as_json", [True, False])
@pytest.mark.parametrize(
    "message",
    ["\x1b[2J\x1b]0;title\x07", "a\nfake line", "\ud800 lone", "\u2028", "%s %d", "x" * 100_000, {"a": 1}],
)
def test_no_message_breaks_a_line_or_a_terminal(as_json, message):
    formatter = JsonFormatter(()) if as_json else HumanFormatter(())
    record = logging.makeLogRecord({"msg": message, "levelname": "INFO", "odd": {object(): float("nan")}})
    text = formatter.format(record)
    assert "\n" not in text and "\x1b" not in text and len(text) < 10_000
    text.encode()
    if as_json:
        json.loads(text)


def test_a_wrong_placeholder_keeps_the_record():
    record = logging.LogRecord("qinglong", logging.INFO, "", 1, "took %d ms", ("long",), None)
    assert "took %d ms ('long',)" in HumanFormatter(()).format(record)


def test_configuring_again_replaces_and_keeps_the_level(log):
    first = io.StringIO()
    configure(json=False, level=logging.INFO, stream=first)
    text = written(as_json=False, work=lambda: (log.info("quiet"), log.warning("loud")), level="WARNING")
    assert first.getvalue() == "" and "loud" in text and "quiet" not in text


NOW = 1_764_526_000_000


def rendered(figures=None, counts=None):
    lines = metrics.render(figures or {}, counts or {}, NOW, "1.2.3").decode().splitlines()
    return dict(line.rsplit(" ", 1) for line in lines if not line.startswith("#"))


def test_figures_become_counters_and_gauges():
    found = rendered(
        {
            "cycles.ok": 7,
            "door.open": 1,
            "attempts.running": 2,
            "journal.size_bytes": 9,
            "cycle.last_ms": 1500,
        }
    )
    assert found["qinglong_cycles_ok_total"] == "7.0"
    assert found["qinglong_door_open"] == "1.0"
    assert found["qinglong_attempts_running"] == "2.0"
    assert found["qinglong_journal_size_bytes"] == "9.0"
    assert found["qinglong_cycle_last_seconds"] == "1.5"


def test_the_oldest_are_ages_and_zeroes_stay():
    found = rendered(
        counts={
            "runs.queued": 3,
            "oldest_ms.queued": NOW - 2500,
            "oldest_ms.lost": NOW + 99,
            "unreachable": 1,
            "oldest_unreachable_ms": NOW - 60_000,
            "occurrences.skipped": 4,
        }
    )
    assert found['qinglong_runs{state="queued"}'] == "3.0"
    assert found['qinglong_runs{state="lost"}'] == "0.0"
    assert found['qinglong_oldest_run_age_seconds{state="queued"}'] == "2.5"
    assert found['qinglong_oldest_run_age_seconds{state="lost"}'] == "0.0", "a clock step is no negative age"
    assert found["qinglong_unreachable_runs"] == "1.0"
    assert found["qinglong_oldest_unreachable_age_seconds"] == "60.0"
    assert found["qinglong_occurrences_skipped"] == "4.0"
    assert 'qinglong_runs{state="succeeded"}' not in found


def test_the_process_tells_about_itself():
    found = rendered()
    assert any(name.startswith("qinglong_build_info{") and 'version="1.2.3"' in name for name in found)
    assert float(found["process_resident_memory_bytes"]) > 1_000_000


def test_the_library_is_not_imported_before_the_first_scrape():
    code = (
        "import sys, qinglong.api.app, qinglong.api.server, qinglong.observability.metrics as m;"
        "assert 'prometheus_client' not in sys.modules;"
        "m.render({}, {}, 0, '');"
        "assert 'prometheus_client' in sys.modules"
    )
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True, timeout=30)


def test_reading_the_token_imports_no_web_framework():
    code = (
        "import sys, qinglong.api.token;"
        "assert not {'starlette', 'uvicorn', 'asyncio', 'msgspec'} & set(sys.modules), sorted(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=30)
