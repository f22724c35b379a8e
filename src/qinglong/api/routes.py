"""Every route of the public API: one row each, then its handler.

There are no set-up routes: a server is initialised by its own first start, never by a request.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from qinglong.api import present
from qinglong.api.bounds import TASK_RUNS, TASK_SKIPS
from qinglong.api.call import Answer, Call
from qinglong.api.problems import BadField
from qinglong.api.table import Route
from qinglong.control.service import LogChunk
from qinglong.domain import states
from qinglong.domain.records import Event
from qinglong.errors import NotFound
from qinglong.ledger.port import RunFilter, RunView, TaskView
from qinglong.limits import LIST_CAP
from qinglong.observability import metrics
from qinglong.wire.api import (
    CancelRequest,
    ChangesQuery,
    Health,
    LogQuery,
    Readiness,
    RunDetail,
    RunInfo,
    RunList,
    RunRequest,
    RunsQuery,
    SkippedInfo,
    TaskDetail,
    TaskList,
    TasksQuery,
    VersionInfo,
)

_STATES: Final = ("open", *states.RUN)


async def health(_: Call) -> Answer:
    """The process answers."""
    return Answer(Health())


async def ready(call: Call) -> Answer:
    """Whether this process does its work now, and if not, why."""
    reasons = call.services.control.reasons_not_ready()
    return Answer(Readiness(not reasons, reasons), status=503 if reasons else 200)


async def scrape(call: Call) -> Answer:
    """Prometheus' text format."""
    services = call.services
    counts = await services.control.queries.counts()
    text = metrics.render(services.figures(), counts, services.clock.wall_ms(), services.about.version)
    return Answer(text, media=metrics.MEDIA)


async def version(call: Call) -> Answer:
    """What runs here."""
    return Answer(call.services.about)


async def tasks(call: Call) -> Answer:
    """Every task of a project."""
    query: TasksQuery = call.query
    found = await call.services.control.queries.tasks(query.project)
    return Answer(TaskList(tuple(map(present.task_info, found))))


async def task(call: Call) -> Answer:
    """One task."""
    query: TasksQuery = call.query
    queries = call.services.control.queries
    name = call.path["name"]
    view = await queries.task(query.project, name)
    if view is None:
        message = f"there is no task {name} in project {query.project}"
        raise NotFound("task_unknown", message, remedy="see `ql tasks`")
    newest = await queries.runs(RunFilter(project=query.project, task=name, limit=TASK_RUNS))
    return Answer(present.task_detail(view, newest, await _skips(call, view)))


async def _skips(call: Call, view: TaskView) -> list[SkippedInfo]:
    if not view.skipped:
        return []
    found: list[SkippedInfo] = []
    for trigger in view.triggers:
        recent = await call.services.control.queries.occurrences(trigger.trigger_id, TASK_SKIPS)
        found += (present.skipped_info(trigger, one) for one in recent if one.run_id is None)
    return sorted(found, key=lambda one: one.last_ms)[-TASK_SKIPS:]


async def runs(call: Call) -> Answer:
    """A page of Runs, newest first."""
    query: RunsQuery = call.query
    if query.state and query.state not in _STATES:
        remedy = f"one of {', '.join(_STATES)}"
        raise BadField(422, "parameter_invalid", "query", "state", "there is no such state", remedy=remedy)
    where = RunFilter(
        project=query.project,
        task=query.task,
        state=query.state,
        since_ms=query.since_ms,
        unreachable=query.unreachable,
        before=query.before,
        limit=min(query.limit + 1, LIST_CAP),  # one more tells whether there is a next page
    )
    found = await call.services.control.queries.runs(where)
    page = found[: query.limit]
    more = len(found) > query.limit or len(found) == LIST_CAP
    return Answer(RunList(tuple(map(present.run_info, page)), page[-1].run_id if more else ""))


async def start(call: Call) -> Answer:
    """Start a task by hand."""
    wish: RunRequest = call.body
    run = await call.services.control.run(
        wish.project, wish.task, by=call.grant.name, allow_overlap=wish.allow_overlap, key=call.key
    )
    where = {"location": f"/api/v1/runs/{run.run_id}"}
    return Answer(present.run_info(run), status=201, headers=where)


async def show(call: Call) -> Answer:
    """One Run with everything that explains it."""
    view = await _view(call)
    return Answer(_detail(call, view, view.events))


async def cancel(call: Call) -> Answer:
    """Ask a Run to end."""
    wish: CancelRequest = call.body
    run_id = await call.services.control.find(call.path["run"])
    run = await call.services.control.cancel(run_id, by=call.grant.name, reason=wish.reason)
    return Answer(present.run_info(run))


async def changes(call: Call) -> Answer:
    """A long poll: the Run with its Events after ``after``, as soon as there are any."""
    query: ChangesQuery = call.query
    control = call.services.control
    run_id = await control.find(call.path["run"])
    if query.wait_ms:
        # A stop ends the wait early; the answer then simply has no new Event.
        await call.patiently(control.changed(run_id, query.after, query.wait_ms))
    view = await _view(call)
    events = await control.queries.events(run_id, query.after)
    return Answer(_detail(call, view, events))


def _detail(call: Call, view: RunView, events: Iterable[Event]) -> RunDetail:
    services = call.services
    return present.run_detail(view, events, services.clock.wall_ms(), services.control.reasons_not_ready())


async def log(call: Call) -> Answer:
    """A piece of an Attempt's output, byte for byte."""
    query: LogQuery = call.query
    view = await _view(call)
    numbers = (query.attempt,) if query.attempt else _began(view)
    for number in numbers:
        chunk = await call.services.control.logs.read(
            view.run.run_id, query.step, number, query.offset, query.limit
        )
        if chunk is not None:
            return Answer(chunk.data, headers=_log_headers(chunk, number), media="application/octet-stream")
    raise NotFound("log_unknown", "there is no such log (yet)", remedy="see `ql show` for what has run")


def _began(view: RunView) -> tuple[int, ...]:
    """The Attempts that may have a log, newest first."""
    began = [one.number for one in view.attempts if one.starting_ms is not None]
    return tuple(sorted(began, reverse=True)) or (view.run.attempt,)


def _log_headers(chunk: LogChunk, number: int) -> dict[str, str]:
    headers = {
        "ql-log-attempt": str(number),
        "ql-log-offset": str(chunk.offset),
        "ql-log-next": str(chunk.next_offset),
        "ql-log-end": "true" if chunk.end else "false",
    }
    if chunk.gap is not None:
        headers["ql-log-gap"] = f"{chunk.gap[0]}-{chunk.gap[1]}"
    return headers


async def _view(call: Call) -> RunView:
    run_id = await call.services.control.find(call.path["run"])
    view = await call.services.control.queries.run(run_id)
    if view is None:
        raise NotFound("run_unknown", f"there is no run {run_id}", remedy="see `ql runs`")
    return view


_V1: Final = "/api/v1"
ROUTES: Final[tuple[Route, ...]] = (
    Route("GET", "/healthz", "public", health, "The process answers", response=Health),
    Route("GET", "/readyz", "public", ready, "200 when it does its work, else 503", response=Readiness),
    Route("GET", "/metrics", "view", scrape, "Metrics in Prometheus' text format"),
    Route("GET", f"{_V1}/version", "view", version, "What runs here", response=VersionInfo),
    Route("GET", f"{_V1}/tasks", "view", tasks, "Tasks of a project", TasksQuery, response=TaskList),
    Route("GET", f"{_V1}/tasks/{{name}}", "view", task, "One task", TasksQuery, response=TaskDetail),
    Route("GET", f"{_V1}/runs", "view", runs, "Runs, newest first", RunsQuery, response=RunList),
    Route(
        "POST", f"{_V1}/runs", "operate", start, "Start a task by hand", request=RunRequest, response=RunInfo
    ),
    Route("GET", f"{_V1}/runs/{{run}}", "view", show, "One Run, explained", response=RunDetail),
    Route(
        "POST",
        f"{_V1}/runs/{{run}}/cancel",
        "operate",
        cancel,
        "Ask a Run to end",
        request=CancelRequest,
        response=RunInfo,
    ),
    Route(
        "GET",
        f"{_V1}/runs/{{run}}/changes",
        "view",
        changes,
        "Wait for the next Events of a Run",
        ChangesQuery,
        response=RunDetail,
    ),
    Route("GET", f"{_V1}/runs/{{run}}/log", "view", log, "A piece of an Attempt's output", LogQuery),
)
