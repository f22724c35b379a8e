"""Over a real socket: what each route answers, and how each kind of mistake is told."""

from __future__ import annotations

import logging

import pytest

from api_support import MARK, RUN_ID, T0, TOKEN, FakeControl, a_run, path_of, serving
from qinglong.api.routes import ROUTES
from qinglong.errors import Damaged, Unavailable, Unknown
from qinglong.ledger.port import RunView

V1 = "/api/v1"


@pytest.fixture
def served():
    with serving() as running:
        yield running


def is_problem(reply, status, code):
    assert (reply.status, reply.json["code"]) == (status, code), reply
    assert reply.headers["content-type"] == "application/problem+json"
    assert reply.json["type"] == "about:blank" and reply.json["status"] == status
    assert reply.json["title"] and reply.json["detail"]
    return reply.json


def test_health_and_readiness(served):
    assert served.get("/healthz", token=None).json == {"alive": True}
    assert served.get("/readyz", token=None).json == {"ready": True}
    served.control.reasons = ("the disk is nearly full",)
    reply = served.get("/readyz", token=None)
    assert (reply.status, reply.json) == (503, {"ready": False, "reasons": ["the disk is nearly full"]})
    assert served.get("/healthz", token=None).status == 200


def test_version(served):
    assert served.get(f"{V1}/version").json == {
        "version": "1.2.3",
        "profile": "edge",
        "python": "3.11",
        "data": MARK,
    }


def test_metrics_count_this_api_too(served):
    served.get(f"{V1}/runs", token=None)
    text = served.get("/metrics").body.decode()
    assert 'qinglong_runs{state="running"} 1.0' in text
    assert "qinglong_cycles_ok_total 7.0" in text
    assert "qinglong_door_open 1.0" in text
    assert "qinglong_http_unauthorised_total 1.0" in text
    assert 'qinglong_build_info{python="' in text and 'version="1.2.3"' in text
    assert RUN_ID not in text and MARK not in text


def test_tasks_tell_their_triggers_in_words(served):
    (task,) = served.get(f"{V1}/tasks?project=default").json["tasks"]
    assert task["command"] == "pg_dump shop" and task["skipped"] == 3
    nightly, often = task["triggers"]
    assert nightly["zone"] == "Europe/Berlin" and nightly["text"].endswith("(Europe/Berlin)")
    assert often["text"] == "every 15m" and "zone" not in often
    assert task["next_ms"] == T0 + 60_000 and task["last"]["run_id"] == RUN_ID
    assert served.get(f"{V1}/tasks?project=other").json == {"tasks": []}


def test_a_task_shows_its_runs_and_what_was_skipped(served):
    found = served.get(f"{V1}/tasks/backup").json
    assert found["spec"]["cwd"] == "/srv" and found["runs"][0]["run_id"] == RUN_ID
    assert found["skipped"] == [
        {"trigger": "nightly", "at_ms": T0 + 1, "last_ms": T0 + 1, "count": 3, "reason": "missed"}
    ]
    assert is_problem(served.get(f"{V1}/tasks/nope"), 404, "task_unknown")["exit_code"] == 3


def test_runs_filter_and_page(served):
    queries = served.control.queries
    for number in range(4):
        run = a_run(f"0199a1b2-0000-7000-8000-00000000000{number}")
        queries.views[run.run_id] = RunView(run, (), None, (), (), 0)
    first = served.get(f"{V1}/runs?limit=3&task=backup&state=open&since_ms=5&unreachable=true&project=p").json
    asked = queries.asked[-1]
    assert (asked.project, asked.task, asked.state, asked.since_ms, asked.unreachable, asked.limit) == (
        *("p", "backup", "open", 5, True),
        4,
    )
    rest = served.get(f"{V1}/runs?limit=3&before={first['next']}").json
    ids = [run["run_id"] for run in first["runs"] + rest["runs"]]
    assert len(first["runs"]) == 3 and ids == sorted(queries.views, reverse=True) and "next" not in rest


def test_a_run_explains_itself(served):
    for name in (RUN_ID, "abcd1234", "backup"):
        found = served.get(f"{V1}/runs/{name}").json
        assert found["run"]["run_id"] == RUN_ID and found["run"]["started_ms"] == T0 + 9
    assert [event["version"] for event in found["events"]] == [1, 2]
    assert all(event["text"].endswith(".") for event in found["events"])
    assert found["now"] and found["attempts"][0]["worker"] == MARK
    assert is_problem(served.get(f"{V1}/runs/nope"), 404, "run_unknown")["exit_code"] == 3


def test_starting_a_run_passes_the_key_and_who(served):
    wish = {"task": "backup", "allow_overlap": True}
    reply = served.ask("POST", f"{V1}/runs", wish, headers={"Idempotency-Key": "k-1"})
    assert (reply.status, reply.headers["location"]) == (201, f"{V1}/runs/{RUN_ID}")
    assert reply.json["state"] == "queued"
    assert served.control.calls == [("run", "default", "backup", TOKEN[:4], True, "k-1")]


def test_cancelling_takes_a_short_form_and_may_have_no_body(served):
    assert served.ask("POST", f"{V1}/runs/backup/cancel", {"reason": "wrong day"}).status == 200
    assert served.ask("POST", f"{V1}/runs/backup/cancel").status == 200
    by = TOKEN[:4]
    assert served.control.calls == [("cancel", RUN_ID, by, "wrong day"), ("cancel", RUN_ID, by, "")]
    assert is_problem(served.ask("POST", f"{V1}/runs/backup/cancel", {"reason": "late"}), 409, "run_final")


def test_a_log_is_bytes_with_its_place(served):
    reply = served.get(f"{V1}/runs/backup/log")
    assert reply.body == served.control.logs.data
    assert reply.headers["content-type"] == "application/octet-stream"
    end = str(10 + len(reply.body))
    told = {name: value for name, value in reply.headers.items() if name.startswith("ql-log-")}
    assert told == {
        "ql-log-attempt": "1",
        "ql-log-offset": "10",
        "ql-log-next": end,
        "ql-log-end": "true",
        "ql-log-gap": "4-10",
    }
    reply = served.get(f"{V1}/runs/backup/log?attempt=1&offset=11&limit=3")
    assert reply.body == served.control.logs.data[1:4] and reply.headers["ql-log-end"] == "false"
    assert "ql-log-gap" not in reply.headers
    is_problem(served.get(f"{V1}/runs/backup/log?attempt=2"), 404, "log_unknown")
    is_problem(served.get(f"{V1}/runs/backup/log?step=x"), 404, "log_unknown")


@pytest.mark.parametrize(
    ("query", "status", "code", "field"),
    [
        ("nope=1", 400, "parameter_unknown", "nope"),
        ("limit=1&limit=2", 400, "parameter_repeated", "limit"),
        ("limit=0", 422, "parameter_invalid", "limit"),
        ("limit=501", 422, "parameter_invalid", "limit"),
        ("limit=", 422, "parameter_invalid", "limit"),
        ("limit=ten", 422, "parameter_invalid", "limit"),
        ("since_ms=-1", 422, "parameter_invalid", "since_ms"),
        ("since_ms=99999999999999999999", 422, "parameter_invalid", "since_ms"),
        ("unreachable=perhaps", 422, "parameter_invalid", "unreachable"),
        ("state=done", 422, "parameter_invalid", "state"),
        ("before=%27%20OR%201", 422, "parameter_invalid", "before"),
        ("task=" + "x" * 129, 422, "parameter_invalid", "task"),
        ("task=%ff", 400, "query_invalid", ""),
        ("&".join(f"a{number}=1" for number in range(40)), 400, "query_invalid", ""),
    ],
)
def test_bad_parameters_are_named(served, query, status, code, field):
    problem = is_problem(served.get(f"{V1}/runs?{query}"), status, code)
    assert problem["exit_code"] == 2
    assert [wrong["field"] for wrong in problem.get("fields", [])] == ([field] if field else [])
    assert field in problem.get("place", "")
    assert not served.control.queries.asked


def test_a_path_without_parameters_refuses_them(served):
    is_problem(served.get(f"{V1}/version?x=1"), 400, "parameter_unknown")
    is_problem(served.get(f"{V1}/runs/backup/changes?wait_ms=30001"), 422, "parameter_invalid")


@pytest.mark.parametrize(
    ("body", "status", "code", "field"),
    [
        (b"", 422, "field_invalid", "task"),
        (b"{}", 422, "field_invalid", "task"),
        (b"[]", 422, "field_invalid", ""),
        (b"null", 422, "field_invalid", ""),
        (b'{"task": 1}', 422, "field_invalid", "task"),
        (b'{"task": "backup", "colour": 1}', 422, "field_invalid", "colour"),
        (b'{"task": "backup", "allow_overlap": "yes"}', 422, "field_invalid", "allow_overlap"),
        (b'{"task": "backup"', 400, "json_malformed", ""),
        (b'{"task": "\xff"}', 400, "json_malformed", ""),
        (b'{"task":' + b"[" * 100_000, 422, "field_invalid", "task"),
        (b'{"task": "backup"} x', 400, "json_malformed", ""),
    ],
)
def test_bad_bodies_are_named(served, body, status, code, field):
    reply = served.ask(
        "POST", f"{V1}/runs", body, headers={"Content-Type": "application/json; charset=utf-8"}
    )
    problem = is_problem(reply, status, code)
    assert [wrong["field"] for wrong in problem.get("fields", [])] == ([field] if field else [])
    assert not served.control.calls


@pytest.mark.parametrize(
    "kind", ["", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data"]
)
def test_a_form_is_no_request(served, kind):
    headers = {"Content-Type": kind} if kind else {}
    reply = served.ask("POST", f"{V1}/runs", b'{"task": "backup"}', headers=headers)
    is_problem(reply, 415, "body_not_json")
    assert not served.control.calls


@pytest.mark.parametrize("key", ["", " ", "x" * 201, "a b", "caf\xe9"])
def test_a_bad_key_is_refused_before_anything_happens(served, key):
    reply = served.ask("POST", f"{V1}/runs", {"task": "backup"}, headers={"Idempotency-Key": key})
    is_problem(reply, 422, "key_invalid")
    assert not served.control.calls


@pytest.mark.parametrize(
    ("fault", "status", "code", "exit_code"),
    [
        (Unavailable("disk_full", "no room"), 503, "disk_full", 5),
        (Unknown("commit_unknown", "it is not known"), 503, "commit_unknown", 6),
        (Damaged("bad_row", "row 7 is damaged"), 500, "bad_row", None),
    ],
)
def test_errors_keep_their_meaning(served, caplog, fault, status, code, exit_code):
    """I12: unknown is told apart from unavailable, and only the latter invites to try again blindly."""
    served.control.fault = fault
    reply = served.ask("POST", f"{V1}/runs", {"task": "backup"})
    assert is_problem(reply, status, code).get("exit_code") == exit_code
    assert ("retry-after" in reply.headers) == isinstance(fault, Unavailable)


def test_a_used_key_is_a_conflict(served):
    reply = served.ask("POST", f"{V1}/runs", {"task": "backup"}, headers={"Idempotency-Key": "used"})
    assert is_problem(reply, 409, "key_reused")["exit_code"] == 4


def test_a_fault_of_ours_shows_nothing_and_is_logged(served, caplog):
    served.control.queries.fault = ZeroDivisionError(f"secret detail {MARK}")
    with caplog.at_level(logging.ERROR, "qinglong.api"):
        reply = served.get(f"{V1}/runs")
    is_problem(reply, 500, "internal")
    assert MARK not in reply.body.decode() and "ZeroDivision" not in reply.body.decode()
    (record,) = caplog.records
    assert record.exc_info and record.request == f"GET {V1}/runs"
    assert TOKEN not in caplog.text
    served.control.queries.fault = None
    assert served.get(f"{V1}/runs").status == 200


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: f"{route.method} {route.path}")
def test_every_json_answer_is_of_its_declared_struct(served, route):
    import msgspec

    body = {"task": "backup"} if route.path == f"{V1}/runs" else {}
    reply = served.ask(route.method, path_of(route.path), body if route.method == "POST" else None)
    if route.response is None:
        assert reply.headers["content-type"] != "application/json"
    else:
        assert reply.headers["content-type"] == "application/json"
        msgspec.json.decode(reply.body, type=route.response)


def test_the_fake_is_a_control():
    """The fake keeps to the port that it stands for."""
    from qinglong.control.service import Control

    wanted = {name for name in vars(Control) if not name.startswith("_")}
    assert wanted <= set(dir(FakeControl()))
