"""The job files that a running server follows: an edit is applied, a broken one keeps the last good version."""

from __future__ import annotations

import asyncio
import logging
import os
import platform
import subprocess  # noqa: TID251 - a reader is no job: it runs none of the user's code
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec

from qinglong.domain.definitions import FileSet
from qinglong.errors import Invalid, Unavailable
from qinglong.wire.problem import Problem, Reading

log = logging.getLogger("qinglong.files")
SOURCE = "files"
"""One data folder has one file set: what ``ql up`` was given is what runs."""

_READ_S = 60.0
"""Longest reading; ten thousand tasks take three seconds."""
_DECODER = msgspec.json.Decoder(Reading)

_Mark = tuple[tuple[int, int, int] | None, ...]


class JobFiles:
    """Reads the files again when one has changed. Compares stat(2) marks; needs no inotify."""

    def __init__(self, paths: tuple[Path, ...], zone: str) -> None:
        self._paths = paths
        self._zone = zone
        self._seen: _Mark = ()
        self.problems: tuple[Problem, ...] = ()
        """Of the newest edit, while it is broken."""

    async def load(self) -> FileSet:
        """The file set as it is now. Raises ``Invalid`` with every problem in ``problems``, ``Unavailable``."""
        self._seen = self._marks()
        reading = await asyncio.to_thread(read, self._paths, self._zone)
        files, problems = reading.files, reading.problems
        if files is not None:
            problems = unplaceable(files, str(self._paths[0]))
        self.problems = problems
        if files is None or problems:
            first = self.problems[0]
            raise Invalid(
                "job_file_invalid",
                f"{first.message} ({len(self.problems)} problem(s))",
                place=f"{first.path}:{first.line}",
                remedy=first.remedy,
            )
        return files

    def edited(self) -> bool:
        """Whether a file changed since it was last read."""
        return self._marks() != self._seen

    def again(self) -> None:
        """The newest edit could not be applied: count the files as edited until it is."""
        self._seen = ()

    def _marks(self) -> _Mark:
        return tuple(_mark(path) for path in self._paths)


def read(paths: tuple[Path, ...], zone: str) -> Reading:
    """Read the files in a process of its own; blocks. Raises ``Unavailable`` when that process fails."""
    command = [sys.executable, "-P", "-m", "qinglong.wire.jobfile", zone, *map(str, paths)]
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, timeout=_READ_S, check=False
        )
        return _DECODER.decode(done.stdout)
    except (OSError, subprocess.SubprocessError, msgspec.DecodeError) as error:
        raise Unavailable("job_file_unread", f"the job file could not be read: {error}") from error


def unplaceable(files: FileSet, path: str) -> tuple[Problem, ...]:
    """Tasks that ask for another machine than this one: with one worker they would never run."""
    here = capabilities()
    return tuple(
        Problem(
            path=path,
            line=0,
            column=0,
            field=f"tasks.{task.name}.placement.required.{name}",
            code="placement_unsatisfied",
            message=f"this machine has {name}: {here.get(name, 'nothing of that name')}",
            remedy="remove the requirement, or run the task on a worker that satisfies it",
        )
        for task in files.tasks
        for name, accepted in task.placement.required.items()
        if here.get(name) not in accepted
    )


def capabilities() -> dict[str, str]:
    """What this machine offers to ``placement``: os, arch (Debian's names), host."""
    names = {"x86_64": "amd64", "aarch64": "arm64", "armv7l": "armhf", "i686": "i386"}
    machine = platform.machine()
    return {"os": "linux", "arch": names.get(machine, machine), "host": platform.node()}


def _mark(path: Path) -> tuple[int, int, int] | None:
    try:
        found = os.stat(path)  # noqa: PTH116 - one call, three facts
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


def tell(problems: tuple[Problem, ...], say: Callable[[str], None]) -> None:
    """Every problem with its place and remedy."""
    for problem in problems:
        field = f"{problem.field}: " if problem.field else ""
        say(f"{problem.path}:{problem.line}: {field}{problem.message} — {problem.remedy}")
