"""The real thing: ``ql up`` as a child process on a test's folder, asked through its command line and its HTTP API.

Jobs keep a diary of their own (``say start``, ``say end``), so that "ran twice" and "lost" are judged by what the
commands did and not by what the server believes. :meth:`Server.close` leaves no process of the folder's Runs behind.
"""

from __future__ import annotations

import contextlib
import fcntl
import http.client
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar
from urllib.parse import quote, urlsplit

T = TypeVar("T")
QL = str(Path(sys.executable).with_name("ql"))
IS_ROOT = os.geteuid() == 0
IN_NAMESPACE = ("unshare", "--pid", "--fork", "--mount-proc", "--kill-child")
"""Makes what follows pid 1 of a pid namespace, as a container does; for root."""
WITHIN_S = 30.0
"""Bound of a wait for something that takes a moment on an idle machine."""
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell's background job ignores SIGINT, and so would every `ql` that is started here.
    signal.signal(signal.SIGINT, signal.default_int_handler)
FINAL = ("succeeded", "failed", "cancelled", "timed_out")
_SAY = """\
say() {
  printf '%s %s %s %s %s %s\\n' "$1" "$QL_RUN_ID" "$QL_ATTEMPT" "$QL_FENCE" "$$" "$(date +%s%3N || echo 0)" >>diary
}
"""


class Ended(NamedTuple):
    """A command that has ended."""

    code: int
    out: str
    err: str


class Line(NamedTuple):
    """What a job wrote about itself."""

    word: str
    run: str
    attempt: int
    fence: int
    pid: int
    at_ms: int
    """By the wall clock; 0 where it could not even look at the clock."""
    place: int
    """Its place in the diary: what the order of two lines is judged by."""


class NotUp(AssertionError):
    """``ql up`` ended instead of becoming ready; the message is what it said."""


def wait_until(condition: Callable[[], T], what: str = "", within: float = WITHIN_S, step: float = 0.02) -> T:
    """What ``condition`` says once that is truthy; an assertion error after ``within`` seconds."""
    until = time.monotonic() + within
    while not (value := condition()):
        assert time.monotonic() < until, f"not within {within:g} s: {what or condition}"
        time.sleep(step)
    return value


def diary(body: str = "") -> str:
    """A job's text that tells its start and its end in the diary, around ``body``."""
    return f". ./say.sh; say start\n{body}\nsay end\n"


def jobs(*, groups: dict[str, int] | None = None, **tasks: Any) -> str:
    """A job file; a task is the fields of a task, or just its ``run``. JSON is YAML."""
    written = {name: task if isinstance(task, dict) else {"run": task} for name, task in tasks.items()}
    whole = {"version": 1, "tasks": written} | ({"concurrency_groups": groups} if groups else {})
    return json.dumps(whole, indent=1, ensure_ascii=False)


def every(interval: str, **more: Any) -> dict[str, Any]:
    """The field ``triggers`` with one interval."""
    return {"triggers": [{"id": "tick", "every": interval, **more}]}


def alive(pid: int) -> bool:
    """Whether a process of that number lives; a zombie does not."""
    try:
        return (
            Path(f"/proc/{pid}/stat").read_text("utf-8", "replace").rpartition(")")[2].split()[0] not in "ZX"
        )
    except (OSError, IndexError):
        return False


def environ(pid: int) -> frozenset[bytes]:
    """The environment of a process; empty if it cannot be read."""
    try:
        return frozenset(Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"))
    except OSError:
        return frozenset()


def cmdline(pid: int) -> list[str]:
    """Its arguments; empty if they cannot be read."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_text("utf-8", "replace").split("\0")[:-1]
    except OSError:
        return []


def pids() -> list[int]:
    """Every process of this machine."""
    return [int(entry.name) for entry in os.scandir("/proc") if entry.name.isdigit()]


def carriers(run_ids: frozenset[str]) -> dict[int, str]:
    """Live processes whose environment names one of these Runs, with the Run's id."""
    wanted = {f"QL_RUN_ID={run_id}".encode(): run_id for run_id in run_ids}
    found: dict[int, str] = {}
    for pid in pids():
        names = environ(pid) & wanted.keys()
        if names and alive(pid):
            found[pid] = wanted[next(iter(names))]
    return found


def is_keeper(pid: int) -> bool:
    """Whether it is a keeper: its own words say so, and it leads its session (its forks do not)."""
    with contextlib.suppress(OSError):
        return "qinglong-keeper" in cmdline(pid) and os.getsid(pid) == pid
    return False


def kill(pid: int, number: int = signal.SIGKILL) -> None:
    """Signal a process that may have ended meanwhile."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


class Server:
    """One data folder with its job file, and the ``ql up`` that serves it."""

    def __init__(self, folder: Path, text: str = "", *options: str, before: Sequence[str] = ()) -> None:
        self.folder = folder
        self.data = folder / "data"
        self.file = folder / "jobs.yaml"
        self.options = options
        self.before = tuple(before)
        """Words before ``ql up``, such as ``unshare …``."""
        self.env = {"PATH": os.environ["PATH"], "HOME": str(folder), "LANG": "C.UTF-8", "TMPDIR": str(folder)}
        self._up: subprocess.Popen[bytes] | None = None
        self._started = 0
        self._spawned: list[subprocess.Popen[bytes]] = []
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "say.sh").write_text(_SAY)
        if text:
            self.edit(text)

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def edit(self, text: str) -> None:
        """Put another job file in the old one's place, as an editor does."""
        new = self.file.with_suffix(".new")
        new.write_text(text, "utf-8")
        new.replace(self.file)

    # The process

    def command(self, *more: str) -> list[str]:
        """The command line of ``ql up``."""
        up = [QL, "up", str(self.file), "--data", str(self.data), "--port", "0"]
        return [*self.before, *up, *self.options, *more]

    def start(self, *more: str, stdout: int | None = None) -> Server:
        """Start ``ql up`` and return when it is ready. Raises :class:`NotUp` with its words if it ends instead."""
        self.launch(*more, stdout=stdout)
        return self.became_ready()

    def became_ready(self) -> Server:
        """Wait until what was launched is ready."""
        wait_until(self._is_ready, "ql up is ready")
        return self

    def launch(self, *more: str, stdout: int | None = None) -> None:
        """Start ``ql up`` without waiting for anything."""
        assert self._up is None, "it runs already"
        self._started += 1
        with self._words("out").open("wb") as out, self._words("err").open("wb") as err:
            self._up = subprocess.Popen(
                self.command(*more),
                stdin=subprocess.DEVNULL,
                stdout=out if stdout is None else stdout,
                stderr=err,
                env=self.env,
                cwd=self.folder,
                start_new_session=True,
            )

    def _words(self, which: str) -> Path:
        return self.folder / f"up.{self._started}.{which}"

    def _is_ready(self) -> bool:
        assert self._up is not None
        if self._up.poll() is not None:
            code, self._up = self._up.returncode, None
            raise NotUp(f"ql up ended with {code}: {self.out}{self.err}")
        return self.announced() and self.ready()[0] == 200

    def announced(self) -> bool:
        """Whether the running server has told its address."""
        try:
            said = json.loads((self.data / "api.json").read_bytes())
        except (OSError, ValueError):
            return False
        return bool(said["pid"] == (1 if self.before else self.pid))

    def ready(self) -> tuple[int, dict[str, Any]]:
        """Status and body of ``/readyz``; (0, {}) where nobody answers."""
        try:
            status, _, body = self.http("GET", "/readyz", token="")
        except (OSError, http.client.HTTPException):
            return 0, {}
        return status, json.loads(body)

    @property
    def pid(self) -> int:
        """The server's process, as this namespace sees it."""
        assert self._up is not None
        if not self.before:
            return self._up.pid
        children = Path(f"/proc/{self._up.pid}/task/{self._up.pid}/children")
        return wait_until(lambda: next((int(pid) for pid in children.read_text().split()), None), "its child")

    @property
    def running(self) -> bool:
        """Whether ``ql up`` lives."""
        return self._up is not None and self._up.poll() is None

    @property
    def out(self) -> str:
        """What the newest ``ql up`` wrote to stdout so far."""
        return self._words("out").read_text("utf-8", "replace")

    @property
    def err(self) -> str:
        """And to stderr."""
        return self._words("err").read_text("utf-8", "replace")

    def says(self, words: str, within: float = WITHIN_S) -> str:
        """Wait until its stdout holds ``words``; the whole of it."""
        return wait_until(lambda: self.out if words in self.out else "", f"ql up says {words!r}", within)

    def send(self, number: int) -> None:
        """Signal the server."""
        kill(self.pid, number)

    def ended(self, within: float = WITHIN_S) -> int:
        """Wait for its end; its exit code, or the negative signal."""
        assert self._up is not None
        code = self._up.wait(within)
        self._up = None
        return code

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Ask it to stop and wait."""
        self.send(number)
        return self.ended()

    def crash(self) -> None:
        """Kill -9, and wait until it is gone; it may have ended by itself before."""
        if self._up is not None:
            self._up.kill()
            self.ended()
        # As pid 1 of a namespace it ends a moment after the `unshare` that was killed.
        wait_until(self._is_unlocked, "the server is gone")

    def _is_unlocked(self) -> bool:
        """Whether no process holds the data folder; looked at only when none is to be started."""
        try:
            with (self.data / "lock").open("rb") as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except FileNotFoundError:
            return True
        except BlockingIOError:
            return False
        return True

    def restart(self, *more: str) -> Server:
        """Kill -9 and start again."""
        if self.running:
            self.crash()
        self._up = None
        return self.start(*more)

    def close(self) -> None:
        """Kill whatever is left of the server, of commands that were spawned, and of the folder's Runs."""
        for process in self._spawned:
            process.kill()
            process.wait()
        self._spawned.clear()
        if self._up is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._up.pid, signal.SIGKILL)
            self._up.wait()
            self._up = None
        wait_until(lambda: not self._kill_all(), "the Runs' processes are gone")

    def _kill_all(self) -> int:
        found = self.carriers()
        for pid in found:
            kill(pid)
        return len(found)

    # The command line

    def ql(self, *arguments: str, within: float = 60.0) -> Ended:
        """Run a ``ql`` command on this data folder to its end."""
        done = subprocess.run(
            [QL, *arguments, "--data", str(self.data)],
            capture_output=True,
            stdin=subprocess.DEVNULL,
            env=self.env,
            cwd=self.folder,
            timeout=within,
            check=False,
        )
        return Ended(
            done.returncode, done.stdout.decode("utf-8", "replace"), done.stderr.decode("utf-8", "replace")
        )

    def json(self, *arguments: str) -> Any:
        """The document that a ``ql`` command prints."""
        done = self.ql(*arguments, "--output", "json")
        assert done.code == 0, done
        return json.loads(done.out)

    def spawn(self, *arguments: str) -> subprocess.Popen[bytes]:
        """A ``ql`` command that goes on meanwhile; its output in pipes."""
        process = subprocess.Popen(
            [QL, *arguments, "--data", str(self.data)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=self.env,
            cwd=self.folder,
        )
        self._spawned.append(process)
        return process

    def finish(self, process: subprocess.Popen[bytes], within: float = WITHIN_S) -> Ended:
        """Wait for a spawned command."""
        out, err = process.communicate(timeout=within)
        self._spawned.remove(process)
        return Ended(process.returncode, out.decode("utf-8", "replace"), err.decode("utf-8", "replace"))

    def up_refused(self, *more: str) -> Ended:
        """Run a ``ql up`` that is expected to end by itself."""
        done = subprocess.run(
            self.command(*more),
            capture_output=True,
            stdin=subprocess.DEVNULL,
            env=self.env,
            cwd=self.folder,
            timeout=WITHIN_S,
            check=False,
        )
        return Ended(done.returncode, done.stdout.decode(), done.stderr.decode())

    # The HTTP API

    @property
    def address(self) -> tuple[str, int]:
        """Where it listens."""
        parts = urlsplit(json.loads((self.data / "api.json").read_bytes())["url"])
        assert parts.hostname and parts.port
        return parts.hostname, parts.port

    @property
    def token(self) -> str:
        """The data folder's token."""
        return (self.data / "token").read_text().strip()

    def http(
        self,
        method: str,
        path: str,
        body: Any = None,
        headers: dict[str, str] | None = None,
        *,
        token: str | None = None,
        within: float = WITHIN_S,
    ) -> tuple[int, dict[str, str], bytes]:
        """One request exactly as given: status, headers, body. ``token=""`` sends none."""
        sent = dict(headers or {})
        token = self.token if token is None else token
        if token:
            sent["Authorization"] = f"Bearer {token}"
        raw = None
        if body is not None:
            raw = json.dumps(body).encode()
            sent["Content-Type"] = "application/json"
        with contextlib.closing(http.client.HTTPConnection(*self.address, timeout=within)) as connection:
            connection.request(method, path, raw, sent)
            reply = connection.getresponse()
            return reply.status, {name.lower(): value for name, value in reply.getheaders()}, reply.read()

    def get(self, path: str) -> Any:
        """The JSON of ``/api/v1`` + ``path``."""
        status, _, body = self.http("GET", f"/api/v1{path}")
        assert status == 200, (path, status, body)
        return json.loads(body)

    def admit(self, task: str, key: str = "", **more: Any) -> str:
        """Start a task by hand through the API; the Run's id."""
        headers = {"Idempotency-Key": key} if key else {}
        status, _, body = self.http("POST", "/api/v1/runs", {"task": task, **more}, headers)
        assert status == 201, (task, status, body)
        return str(json.loads(body)["run_id"])

    def cancel(self, run_id: str) -> None:
        """Cancel through the API."""
        status, _, body = self.http("POST", f"/api/v1/runs/{quote(run_id)}/cancel", {})
        assert status == 200, (status, body)

    def detail(self, run: str) -> dict[str, Any]:
        """One Run with everything that explains it."""
        found: dict[str, Any] = self.get(f"/runs/{quote(run)}")
        return found

    def state(self, run: str) -> str:
        """A Run's state."""
        return str(self.detail(run)["run"]["state"])

    def until(self, run: str, *states: str, within: float = WITHIN_S) -> dict[str, Any]:
        """Wait until a Run is in one of these states (any final one, if none is given); its details."""
        wanted = states or FINAL
        last: dict[str, Any] = {}

        def there() -> bool:
            nonlocal last
            last = self.detail(run)
            return last["run"]["state"] in wanted

        try:
            wait_until(there, f"run {run} is {' or '.join(wanted)}", within, 0.03)
        except AssertionError as error:
            raise AssertionError(f"{error}: {json.dumps(last, indent=1)}") from None
        return last

    def runs(self, **query: Any) -> list[dict[str, Any]]:
        """Runs, newest first, over every page."""
        return list(self._pages({"limit": 500, **query}))

    def _pages(self, query: dict[str, Any]) -> Iterator[dict[str, Any]]:
        before = ""
        while True:
            given = {**query, **({"before": before} if before else {})}
            page = self.get(
                "/runs?" + "&".join(f"{name}={quote(str(value))}" for name, value in given.items())
            )
            yield from page["runs"]
            if not (before := page.get("next", "")):
                return

    def task(self, name: str) -> dict[str, Any]:
        """One task with its skipped occurrences."""
        found: dict[str, Any] = self.get(f"/tasks/{quote(name)}")
        return found

    def skips(self, name: str) -> dict[str, int]:
        """How many occurrences of a task were skipped, by reason."""
        found: dict[str, int] = {}
        for skip in self.task(name).get("skipped", []):
            found[skip["reason"]] = found.get(skip["reason"], 0) + skip["count"]
        return found

    # What the jobs did

    def lines(self, run: str = "", word: str = "") -> list[Line]:
        """The diary, in the order in which it was written."""
        try:
            text = (self.folder / "diary").read_text()
        except FileNotFoundError:
            return []
        found = [_line(line, place) for place, line in enumerate(text.splitlines())]
        return [line for line in found if (not run or line.run == run) and (not word or line.word == word)]

    def said(self, word: str, run: str = "", within: float = WITHIN_S) -> Line:
        """Wait until a job has written ``word``; the newest such line."""
        return wait_until(lambda: self.lines(run, word), f"a job says {word!r}", within)[-1]

    def log(self, run: str) -> bytes:
        """A Run's output as the API gives it at once (up to one piece)."""
        return self.http("GET", f"/api/v1/runs/{quote(run)}/log")[2]

    def run_ids(self) -> frozenset[str]:
        """Every Run that had a command here."""
        try:
            return frozenset(entry.name for entry in os.scandir(self.data / "attempts"))
        except OSError:
            return frozenset()

    def carriers(self, *run_ids: str) -> dict[int, str]:
        """Live processes of these Runs (of all of this folder, if none is named)."""
        return carriers(frozenset(run_ids) or self.run_ids())

    def keeper(self, run_id: str) -> int:
        """The keeper of a Run's Attempt."""
        return wait_until(lambda: next(filter(is_keeper, self.carriers(run_id)), 0), f"a keeper of {run_id}")


def _line(text: str, place: int) -> Line:
    word, run, attempt, fence, pid, at_ms = text.split(" ")
    return Line(word, run, int(attempt), int(fence), int(pid), int(at_ms), place)
