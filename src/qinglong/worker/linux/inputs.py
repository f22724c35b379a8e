"""Files that a launch reads on the executing machine: environment files, secrets, scripts."""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
from collections.abc import Iterator
from io import FileIO

from qinglong.worker.host import StartFailed, not_started


@contextlib.contextmanager
def _opened(path: str, what: str) -> Iterator[FileIO]:
    """A regular file, opened without waiting so that a FIFO of that name cannot hold up the worker."""
    try:
        with FileIO(os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise StartFailed(f"{what}: {path}: not a regular file")
            yield file
    except (OSError, ValueError) as error:
        raise not_started(f"{what}: {path}", error) from None


def read_file(path: str, limit: int, what: str) -> bytes:
    """The content, at most ``limit`` bytes; raises :class:`StartFailed` that begins with ``what``."""
    with _opened(path, what) as file:
        raw = bytearray()
        while len(raw) <= limit and (part := file.read(limit + 1 - len(raw))):
            raw += part
    if len(raw) > limit:
        raise StartFailed(f"{what}: {path}: larger than {limit} bytes")
    return bytes(raw)


def inspect_script(path: str) -> tuple[str, bool]:
    """Hex SHA-256 of a script, and whether it can run by itself (executable and beginning with ``#!``)."""
    with _opened(path, "script") as file:
        executable = bool(os.fstat(file.fileno()).st_mode & 0o111)
        head = file.read(2)
        file.seek(0)
        digest = hashlib.file_digest(file, "sha256")
    return digest.hexdigest(), executable and head == b"#!"
