"""What people read: commands in one line, triggers in words, Runs without their secrets."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from api_support import T0, FakeControl, a_run
from qinglong.api import present
from qinglong.domain.definitions import Command, TriggerSpec
from qinglong.domain.records import Attempt, Intent


@pytest.mark.parametrize(
    ("command", "line"),
    [
        (Command("text", text="make backup"), "make backup"),
        (Command("text", text="\n  set -x\n  make\n"), "set -x …"),
        (Command("text", text="  "), ""),
        (Command("argv", argv=("cp", "a b", "$HOME")), "cp 'a b' '$HOME'"),
        (Command("script", script="fetch.py", args=("--all",)), "fetch.py --all"),
    ],
)
def test_a_command_is_one_line(command, line):
    assert present.command_line(command) == line


def test_a_long_command_is_cut():
    line = present.command_line(Command("text", text="x" * 500))
    assert len(line) == 120 and line.endswith("…")


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        (TriggerSpec("a", "every", every_ms=900_000), "every 15m"),
        (TriggerSpec("a", "at", at_ms=T0), "once, at 2025-11-30 18:06:40 UTC"),
        (TriggerSpec("a", "at", at_ms=10**18), "once, at 1000000000000000000 ms"),
        (TriggerSpec("a", "boot"), "at every boot of the machine"),
        (TriggerSpec("a", "cron", expr="not cron", zone="UTC"), "not cron (UTC)"),
    ],
)
def test_triggers_in_words(spec, text):
    assert present.trigger_text(spec) == text


def test_a_cron_trigger_names_its_zone():
    text = present.trigger_text(TriggerSpec("a", "cron", expr="0 3 * * *", zone="Asia/Tokyo"))
    assert "3" in text and text.endswith(" (Asia/Tokyo)")


def test_a_run_that_is_asked_to_end_says_so_until_it_has():
    asked = a_run(intent=Intent("cancel", T0))
    assert present.run_info(asked).cancelling
    assert not present.run_info(replace(asked, state="cancelled")).cancelling
    assert not present.run_info(a_run(intent=Intent("deadline", T0))).cancelling


def test_the_start_is_the_first_that_is_known():
    attempts = [
        Attempt("r", "", 1, "lost", T0, starting_ms=T0 + 5),
        Attempt("r", "", 2, "running", T0, starting_ms=T0 + 20, running_ms=T0 + 30),
    ]
    assert present.run_info(a_run(), attempts).started_ms == T0 + 5
    assert present.run_info(a_run()).started_ms is None


def test_the_next_attempt_is_shown_only_while_it_is_awaited():
    assert present.run_info(a_run(available_ms=T0 + 7)).available_ms is None
    assert present.run_info(a_run(state="retry_wait", available_ms=T0 + 7)).available_ms == T0 + 7


def test_an_attempt_shows_no_fence():
    secret = "sentinel-token-digest"
    attempt = Attempt("r", "", 1, token_digest=secret, session_id=secret, offer_id=secret)
    assert secret not in str(present.attempt_info(attempt))


def test_a_detail_tells_every_event():
    view = FakeControl().queries.views[a_run().run_id]
    detail = present.run_detail(view, view.events, T0 + 60_000)
    assert len(detail.events) == 2 and all(event.text for event in detail.events)
    assert detail.now and detail.late_reports == 0
