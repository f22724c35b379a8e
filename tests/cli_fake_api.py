"""A server that speaks the public API from canned answers, and remembers what it was asked."""

from __future__ import annotations

import json
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit

import msgspec

from qinglong.wire.api import AttemptInfo, EventInfo, Problem, RunDetail, RunInfo

RUN_ID = "0199a1b2-0000-7000-8000-0000abcd1234"
TOKEN = "a-token-of-the-tests-0123456789abcdef"
T0 = 1_764_526_000_000
WAIT_S = 20


@dataclass
class Asked:
    """One request as it came."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes


@dataclass
class Answer:
    """What the server does: a reply, a dropped connection, or a reply that waits for ``hold``."""

    body: bytes = b"{}"
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    drop: bool = False
    hold: threading.Event | None = None


def ok(struct, **headers):
    return Answer(msgspec.json.encode(struct), headers=headers)


def problem(status, code, exit_code, detail="it is so", **rest):
    found = Problem("about:blank", "Title", status, detail, code, exit_code=exit_code, **rest)
    return Answer(msgspec.json.encode(found), status)


def log(data, offset=0, end=True, gap=""):
    headers = {
        "QL-Log-Attempt": "1",
        "QL-Log-Offset": str(offset),
        "QL-Log-Next": str(offset + len(data)),
        "QL-Log-End": "true" if end else "false",
    }
    return Answer(data, headers={**headers, "QL-Log-Gap": gap} if gap else headers)


def run(state="running", **rest):
    facts = {"created_ms": T0, "attempt": 1, "version": 5, "revision": 2, "cause": "manual", **rest}
    return RunInfo(run_id=RUN_ID, project="default", task="backup", state=state, **facts)


def detail(state="running", status="running", attempts=None, events=(), now=(), **rest):
    """A Run with one Attempt; ``exit_code`` and ``signal`` are the Attempt's too."""
    ends = {key: rest[key] for key in ("exit_code", "signal") if key in rest}
    made = attempts or (AttemptInfo(1, status, T0, worker="w1", running_ms=T0, **ends),)
    return RunDetail(run(state, attempt=len(made), **rest), tuple(made), tuple(events), tuple(now))


def event(version, kind, text="", **data):
    return EventInfo(version, T0 + version * 1000, kind, text, data)


class FakeApi:
    """Answers by (method, path below /api/v1): a list is used up, its last answer stays."""

    def __init__(self):
        self.answers: dict[tuple[str, str], list[Answer]] = {}
        self.asked: list[Asked] = []
        self.seen = threading.Condition()
        self.closing = threading.Event()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def on(self, method, path, *answers):
        self.answers[method, path] = list(answers)

    def close(self):
        self.closing.set()
        self._server.shutdown()
        self._thread.join(WAIT_S)
        self._server.server_close()

    def wait_for(self, method, path):
        """Until such a request has come; it may still be held."""
        with self.seen:
            came = self.seen.wait_for(lambda: bool(self.of(method, path)), WAIT_S)
            assert came, f"nobody asked {method} {path}"

    def of(self, method, path):
        return [each for each in self.asked if (each.method, each.path) == (method, path)]

    def _answer(self, asked):
        with self.seen:
            self.asked.append(asked)
            self.seen.notify_all()
            queue = self.answers.get((asked.method, asked.path))
            if not queue:
                return problem(404, "path_unknown", 3, f"nothing at {asked.path}")
            return queue.pop(0) if len(queue) > 1 else queue[0]

    def _handler(self):
        api = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def handle_one_request(self):
                try:
                    super().handle_one_request()
                except (ConnectionError, TimeoutError):
                    self.close_connection = True

            def _serve(self):
                parts = urlsplit(self.path)
                size = int(self.headers.get("content-length") or 0)
                asked = Asked(
                    self.command,
                    unquote(parts.path.removeprefix("/api/v1")),
                    {key: values[-1] for key, values in parse_qs(parts.query).items()},
                    {key.lower(): value for key, value in self.headers.items()},
                    self.rfile.read(size),
                )
                answer = api._answer(asked)
                if answer.hold is not None:
                    answer.hold.wait(WAIT_S)
                if answer.drop:
                    self.close_connection = True
                    return
                self.send_response(answer.status)
                for key, value in answer.headers.items():
                    self.send_header(key, value)
                self.send_header("content-length", str(len(answer.body)))
                self.end_headers()
                self.wfile.write(answer.body)

            do_GET = do_POST = _serve

            def log_message(self, *_):
                return

        return Handler


@contextmanager
def serving():
    """A server for the time of a ``with``."""
    api = FakeApi()
    try:
        yield api
    finally:
        api.close()


def write_folder(folder, url, token=TOKEN):
    """A data folder as ``ql up`` leaves it."""
    folder.mkdir(exist_ok=True)
    (folder / "api.json").write_text(json.dumps({"url": url, "pid": 1}))
    (folder / "token").write_text(f"{token}\n")
    return folder
