"""A real ``ql up`` process, driven from outside as a user would."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import apsw

QL = Path(sys.executable).with_name("ql")
_POLL_S = 0.002
_LONGEST_S = 60.0


def environment(folder: Path) -> dict[str, str]:
    """The caller's, with compiled modules kept in ``folder``: an installed package has them too."""
    own = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**own, "PYTHONPYCACHEPREFIX": str(folder / "pycache")}


def job_file(tasks: dict[str, dict[str, Any]], **head: Any) -> str:
    """The text of a job file; JSON is YAML."""
    return json.dumps({"version": 1, "timezone": "UTC", **head, "tasks": tasks}, indent=1)


def yearly(count: int, prefix: str = "far") -> dict[str, dict[str, Any]]:
    """Tasks with a schedule that is months away, each at a moment of its own."""
    month = (time.gmtime().tm_mon + 5) % 12 + 1
    return {
        f"{prefix}{number:04}": {
            "run": "true",
            "schedule": f"{number % 60} {number // 60 % 24} {number // 1440 + 1} {month} *",
        }
        for number in range(count)
    }


def free_port() -> int:
    """A port that nobody listens on at the moment."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port: int = listening.getsockname()[1]
        return port


class Up:
    """One life of ``ql up`` on ``folder/data``; start, use, then ``stop`` or ``crash``."""

    def __init__(
        self, folder: Path, file: Path, *, profile: str = "standalone", slots: int | None = None, caches: Path
    ) -> None:
        self.data = folder / "data"
        self.port = free_port()
        words = ["up", file, "--data", self.data, "--profile", profile, "--port", self.port, "--drain", "1ms"]
        if slots is not None:
            words += ["--slots", slots]
        self._log = (folder / "up.log").open("ab")
        self.begun_ns = time.time_ns()
        self.process = subprocess.Popen(
            [QL, *map(str, words)],
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=self._log,
            env=environment(caches),
            start_new_session=True,
        )

    @property
    def pid(self) -> int:
        """Of the server."""
        return self.process.pid

    def ready(self) -> float:
        """Wait for 200 from ``/readyz``; seconds since the process was started."""
        while not self._is_ready():
            if self.process.poll() is not None or time.time_ns() - self.begun_ns > _LONGEST_S * 1e9:
                raise RuntimeError(f"ql up did not become ready; see {self._log.name}")
            time.sleep(_POLL_S)
        return (time.time_ns() - self.begun_ns) / 1e9

    def _is_ready(self) -> bool:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=5)
        try:
            connection.request("GET", "/readyz")
            return connection.getresponse().status == 200
        except OSError:
            return False
        finally:
            connection.close()

    def metrics(self) -> dict[str, float]:
        """Every sample of ``/metrics`` that has no labels."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        token = (self.data / "token").read_text("ascii").strip()
        try:
            connection.request("GET", "/metrics", headers={"Authorization": f"Bearer {token}"})
            answer = connection.getresponse()
            text = answer.read().decode()
            assert answer.status == 200, text
        finally:
            connection.close()
        pairs = (
            line.split(" ") for line in text.splitlines() if line[:1] not in {"", "#"} and "{" not in line
        )
        return {name: float(value) for name, value in pairs}

    def rows(self, sql: str, values: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
        """Read the ledger beside the server, on a read-only connection."""
        return read(self.data, sql, values)

    def wait_for(self, sql: str, count: int, pause_s: float = 0.25) -> None:
        """Until the one number that ``sql`` selects is at least ``count``."""
        deadline = time.monotonic() + 4 * _LONGEST_S
        while (found := self.rows(sql)[0][0]) < count:
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"stuck at {found} of {count}: {sql}")
            time.sleep(pause_s)

    def stop(self) -> None:
        """An orderly stop."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(15)
            except subprocess.TimeoutExpired:
                self.process.kill()
        self.process.wait()
        self._log.close()

    def crash(self) -> None:
        """SIGKILL to the server only; its jobs go on."""
        self.process.kill()
        self.process.wait()
        self._log.close()


def read(data: Path, sql: str, values: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Rows of a ledger, on a read-only connection."""
    db = apsw.Connection(str(data / "ledger.db"), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        db.set_busy_timeout(5_000)
        return db.execute(sql, values).fetchall()
    finally:
        db.close()


def end_jobs(data: Path) -> int:
    """SIGKILL the commands of a data folder that still run, each known by its Run's id in its environment."""
    ended = 0
    for path in (data / "attempts").glob("*/*.pid"):
        fields = path.read_text("ascii").split()
        if not fields:
            continue
        marks = Path("/proc", fields[0], "environ")
        try:
            if f"QL_RUN_ID={path.parent.name}".encode() in marks.read_bytes():
                os.kill(int(fields[0]), signal.SIGKILL)
                ended += 1
        except OSError:
            continue
    return ended
