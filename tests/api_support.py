"""What the API's tests share: a control plane in memory, a server on a real socket, and a plain client."""

from __future__ import annotations

import asyncio
import hashlib
import http.client
import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import msgspec
import uvloop
from msgspec.structs import replace

from qinglong.api import bounds
from qinglong.api.access import Grant, Tokens
from qinglong.api.app import Api
from qinglong.api.routes import ROUTES
from qinglong.api.server import Server, bind
from qinglong.control.service import LogChunk
from qinglong.domain.definitions import Command, TaskSpec, TriggerSpec, encode
from qinglong.domain.records import Attempt, Event, Occurrence, Policy, Run, Task, Trigger
from qinglong.effects import SystemClock
from qinglong.errors import Conflict, Invalid, NotFound, Refused
from qinglong.ledger.port import RunFilter, RunView, TaskView
from qinglong.wire.api import VersionInfo

T0 = 1_764_526_000_000
RUN_ID = "0199a1b2-0000-7000-8000-0000abcd1234"
TOKEN = "ok3n-0123456789abcdefghijklmnopqrstuvwxyz"
VIEWER = "view-0123456789abcdefghijklmnopqrstuvwxyz"
NOBODY = "none-0123456789abcdefghijklmnopqrstuvwxyz"
MARK = "sentinel-of-stored-data"
"""Stands in every stored record: whoever sees it has seen data."""
WITHIN_S = 10.0


def a_run(run_id: str = RUN_ID, **rest: Any) -> Run:
    """A running Run of task ``backup``."""
    values: dict[str, Any] = {
        "run_id": run_id,
        "project": "default",
        "task_id": "t1",
        "task": "backup",
        "revision": 1,
        "cause": "manual",
        "trigger_id": None,
        "occurrence": None,
        "scheduled_ms": None,
        "created_ms": T0,
        "policy": Policy(),
        "gates": (),
        "priority": 0,
        "placement": "",
        "start_by_ms": None,
        "deadline_ms": None,
        "state": "running",
        "version": 2,
        "reason": MARK,
    }
    return Run(**{**values, **rest})


def a_task() -> tuple[Task, TaskSpec]:
    """Task ``backup`` with two triggers."""
    triggers = (
        TriggerSpec("nightly", "cron", expr="0 3 * * *", zone="Europe/Berlin"),
        TriggerSpec("often", "every", every_ms=900_000),
    )
    spec = TaskSpec("backup", Command("text", text="pg_dump shop"), "/srv", notes=MARK, triggers=triggers)
    return Task("t1", "default", "backup", "files", 1, "d", T0), spec


class FakeQueries:
    """``Queries`` over plain dicts."""

    def __init__(self) -> None:
        run = a_run()
        attempt = Attempt(RUN_ID, "", 1, "running", T0, worker=MARK, starting_ms=T0 + 5, running_ms=T0 + 9)
        events = (
            Event(RUN_ID, 1, T0, "admitted", {"task": MARK, "cause": "manual"}),
            Event(RUN_ID, 2, T0 + 9, "running", {"attempt": 1}),
        )
        self.views = {RUN_ID: RunView(run, (attempt,), None, events, (), 0)}
        task, spec = a_task()
        heads = tuple(
            Trigger(f"t1.{one.id}", "t1", one.id, msgspec.json.encode(one), T0, T0, T0 + 60_000 + index)
            for index, one in enumerate(spec.triggers)
        )
        self.task_view = TaskView(task, encode(spec), heads, run, 3)
        self.asked: list[RunFilter] = []
        self.fault: Exception | None = None

    async def runs(self, where: RunFilter) -> tuple[Run, ...]:
        if self.fault is not None:
            raise self.fault
        self.asked.append(where)
        found = sorted((view.run for view in self.views.values()), key=lambda run: run.run_id, reverse=True)
        return tuple(run for run in found if not where.before or run.run_id < where.before)[: where.limit]

    async def run(self, run_id: str) -> RunView | None:
        return self.views.get(run_id)

    async def find_run(self, text: str) -> tuple[str, ...]:
        return tuple(key for key in self.views if text in key or text == self.views[key].run.task)

    async def events(self, run_id: str, after: int) -> tuple[Event, ...]:
        return tuple(event for event in self.views[run_id].events if event.version > after)

    async def tasks(self, project: str) -> tuple[TaskView, ...]:
        return (self.task_view,) if project == "default" else ()

    async def task(self, project: str, name: str) -> TaskView | None:
        return self.task_view if (project, name) == ("default", "backup") else None

    async def occurrences(self, trigger_id: str, limit: int) -> tuple[Occurrence, ...]:
        if trigger_id != "t1.nightly":
            return ()
        return (
            Occurrence(trigger_id, "2", T0 + 2, T0 + 2, 1, RUN_ID, ""),
            Occurrence(trigger_id, "1", T0 + 1, T0 + 1, 3, None, "missed"),
        )

    async def sessions(self) -> tuple[()]:
        return ()

    async def counts(self) -> dict[str, float]:
        return {"runs.running": 1, "oldest_ms.running": T0, "unreachable": 0}


class FakeLogs:
    """``Logs`` with one log, of which the middle was dropped."""

    data = b"\x00\xff" + MARK.encode()

    async def read(self, run_id: str, step: str, number: int, offset: int, limit: int) -> LogChunk | None:
        if (run_id, step, number) != (RUN_ID, "", 1):
            return None
        start = max(offset, 10)
        piece = self.data[start - 10 :][:limit]
        end = start + len(piece)
        return LogChunk(piece, start, end, end >= 10 + len(self.data), (4, 10) if offset < 10 else None)


class FakeControl:
    """``Control`` in memory."""

    def __init__(self) -> None:
        self.queries = FakeQueries()
        self.logs = FakeLogs()
        self.reasons: tuple[str, ...] = ()
        self.calls: list[tuple[Any, ...]] = []
        self.waiting = threading.Event()
        """Set while somebody waits in ``changed``."""
        self.left = threading.Event()
        """Set when a wait in ``changed`` ended, however."""
        self.moved = asyncio.Event()
        self.fault: Exception | None = None

    async def run(
        self, project: str, task: str, *, by: str, allow_overlap: bool = False, key: str = ""
    ) -> Run:
        self.calls.append(("run", project, task, by, allow_overlap, key))
        if self.fault is not None:
            raise self.fault
        if task != "backup":
            raise NotFound("task_unknown", f"there is no task {task}", remedy="see `ql tasks`")
        if key == "used":
            raise Conflict("key_reused", "this key was used for another request")
        return a_run(state="queued", reason="")

    async def cancel(self, run_id: str, *, by: str, reason: str = "") -> Run:
        self.calls.append(("cancel", run_id, by, reason))
        if reason == "late":
            raise Refused("run_final", "the run has ended")
        return a_run()

    async def find(self, text: str) -> str:
        found = await self.queries.find_run(text)
        if not found:
            raise NotFound("run_unknown", f"there is no run {text}", remedy="see `ql runs`")
        if len(found) > 1:
            raise Invalid("run_ambiguous", f"{text} may mean several runs")
        return found[0]

    async def spec(self, task_id: str, revision: int) -> bytes | None:
        return None

    async def changed(self, run_id: str, after: int, wait_ms: int) -> int:
        self.waiting.set()
        try:
            async with asyncio.timeout(wait_ms / 1000):
                await self.moved.wait()
        except TimeoutError:
            pass
        finally:
            self.left.set()
        return self.queries.views[run_id].run.version

    def advance(self) -> None:
        """One more Event; wakes who waits. On the loop."""
        view = self.queries.views[RUN_ID]
        event = Event(RUN_ID, view.run.version + 1, T0 + 99, "unreachable", {})
        run = replace(view.run, version=event.version)
        self.queries.views[RUN_ID] = replace(view, run=run, events=(*view.events, event))
        self.moved.set()

    def reasons_not_ready(self) -> tuple[str, ...]:
        return self.reasons

    def figures(self) -> dict[str, float]:
        return {"cycles.ok": 7, "door.open": 1}


def tokens() -> Tokens:
    """One token with every permission, one that may view, one that may nothing."""
    grants = {TOKEN: {"view", "operate"}, VIEWER: {"view"}, NOBODY: set()}
    return Tokens(
        {
            hashlib.sha256(text.encode()).digest(): Grant(text[:4], frozenset(may))
            for text, may in grants.items()
        }
    )


def an_api(control: FakeControl, **rest: Any) -> Api:
    """The application over ``control``."""
    about = VersionInfo("1.2.3", "edge", "3.11", data=MARK)
    return Api(control, tokens(), SystemClock(), about, **{"routes": ROUTES, **rest})


@dataclass
class Reply:
    """A response, read whole."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class Running:
    """A server on a thread of its own, stopped when the test ends."""

    control: FakeControl
    loop: asyncio.AbstractEventLoop
    server: Server
    errors: list[dict[str, Any]] = field(default_factory=list)

    @property
    def port(self) -> int:
        return self.server.port

    def on_loop(self, work: Any) -> Any:
        """Run a coroutine on the server's loop."""
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(WITHIN_S)

    def call(self, work: Any) -> None:
        """Call a function on the server's loop and wait until it has run."""

        async def do() -> None:
            work()

        self.on_loop(do())

    def connect(self) -> socket.socket:
        """A bare connection with a time-out."""
        return socket.create_connection(("127.0.0.1", self.port), WITHIN_S)

    def raw(self, data: bytes) -> bytes:
        """Send bytes, read until the server closes."""
        with self.connect() as sock:
            sock.sendall(data)
            return everything(sock)

    def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        token: str | None = TOKEN,
        headers: dict[str, str] | None = None,
    ) -> Reply:
        """One request on a connection of its own; ``body`` that is no bytes goes as JSON."""
        sent = {} if token is None else {"Authorization": f"Bearer {token}"}
        if body is not None and not isinstance(body, bytes):
            body = json.dumps(body).encode()
            sent["Content-Type"] = "application/json"
        sent.update(headers or {})
        client = http.client.HTTPConnection("127.0.0.1", self.port, timeout=WITHIN_S)
        try:
            client.request(method, path, body, sent)
            response = client.getresponse()
            found = {name.lower(): value for name, value in response.getheaders()}
            return Reply(response.status, found, response.read())
        finally:
            client.close()

    def get(self, path: str, **rest: Any) -> Reply:
        return self.ask("GET", path, **rest)


def everything(sock: socket.socket) -> bytes:
    """All bytes until the other side closes, or resets."""
    parts = []
    try:
        while piece := sock.recv(65_536):
            parts.append(piece)
    except ConnectionResetError:
        pass
    return b"".join(parts)


@contextmanager
def serving(
    control: FakeControl | None = None, *, connections: int = bounds.CONNECTIONS, **rest: Any
) -> Iterator[Running]:
    """A server on a free port, on uvloop as in production, stopped at the end."""
    control = control or FakeControl()
    loop = uvloop.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    server = Server(an_api(control, **rest), bind("127.0.0.1", 0), connections=connections)
    running = Running(control, loop, server)
    loop.set_exception_handler(lambda _, context: running.errors.append(context))
    try:
        running.on_loop(running.server.start())
        yield running
    finally:
        running.on_loop(running.server.stop())
        loop.call_soon_threadsafe(loop.stop)
        thread.join(WITHIN_S)
        loop.close()
    assert not running.errors


def path_of(template: str) -> str:
    """A real path for a route's template."""
    return template.replace("{run}", RUN_ID).replace("{name}", "backup")
