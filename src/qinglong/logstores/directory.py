"""A directory as a store of logs: on the disk of a single replica, or on a file system that all replicas mount.

Objects are written under a name of their own, forced to the disk and renamed, so no reader ever sees half of one.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final, TypeVar

from qinglong.control.logstore import unavailable

T = TypeVar("T")
_THREADS: Final = 4
"""Calls at once: a file system that hangs must not take every thread of the process."""
_MARKERS: Final = ".replicas"
_MARKER_BYTES: Final = 256


class DirectoryObjects:
    """``control.logstore.Objects`` in files below ``root``, which is made if it is missing (mode 0700)."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._room = asyncio.Semaphore(_THREADS)

    async def _run(self, work: Callable[[], T]) -> T:
        async with self._room:
            try:
                return await asyncio.to_thread(work)
            except OSError as error:
                raise unavailable(f"{self._root} cannot be used", error) from error

    async def names(self, folder: str) -> tuple[str, ...]:
        """See the port."""

        def work() -> tuple[str, ...]:
            try:
                return tuple(os.listdir(self._root / folder))  # noqa: PTH208
            except FileNotFoundError:
                return ()

        return await self._run(work)

    async def put(self, folder: str, name: str, data: bytes) -> None:
        """See the port."""
        await self._run(lambda: _write(self._root, self._root / folder, name, data))

    async def get(self, folder: str, name: str, offset: int, size: int) -> bytes | None:
        """See the port."""
        return await self._run(lambda: _read(self._root / folder / name, offset, size))

    async def delete(self, folder: str, names: Sequence[str]) -> None:
        """See the port."""

        def work() -> None:
            for name in names:
                (self._root / folder / name).unlink(missing_ok=True)

        await self._run(work)


def _write(root: Path, folder: Path, name: str, data: bytes) -> None:
    target = folder / name
    if target.exists():
        # Whoever renamed it may not have forced the directory yet.
        _sync(folder)
        return
    _make(root, folder)
    handle, temporary = tempfile.mkstemp(prefix=".new-", dir=folder)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        # Where another replica was faster this replaces an object by the same: the name tells the content.
        os.rename(temporary, target)  # noqa: PTH104
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)  # noqa: PTH108
        raise
    _sync(folder)


def _make(root: Path, folder: Path) -> None:
    """Make the folder durably: each directory is an entry in the one above it."""
    missing = [one for one in (folder, *folder.parents) if one.is_relative_to(root) and not one.exists()]
    for one in reversed(missing):
        one.mkdir(mode=0o700, parents=True, exist_ok=True)
        _sync(one.parent)


def _sync(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    except OSError as error:
        # Some network file systems have no fsync(2) of directories, and need none.
        if error.errno != errno.EINVAL:
            raise
    finally:
        os.close(handle)


def _read(path: Path, offset: int, size: int) -> bytes | None:
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        return os.pread(handle, size, offset)
    except OSError as error:
        if error.errno != errno.ESTALE:
            raise
        # NFS: deleted by another machine while it was open here.
        return None
    finally:
        os.close(handle)


# Several replicas must mount the same directory, not one each of the same name (design section 7)


def mark(root: Path, replica: str, nonce: str) -> None:
    """Leave this replica's marker, for others to look for. Raises ``Unavailable``.

    ``nonce``: fresh for each start and told to the others by way of the ledger, so that an old marker is none.
    """
    folder = root / _MARKERS
    try:
        _make(root, folder)
        (folder / replica).unlink(missing_ok=True)
        _write(root, folder, replica, nonce.encode())
    except OSError as error:
        raise unavailable(f"{root} cannot be written", error) from error


def unseen(root: Path, markers: Mapping[str, str]) -> tuple[str, ...]:
    """The replicas (id to nonce) whose markers are not in this directory: they store their logs elsewhere.

    A network file system may show a new marker only after some seconds, so one that is not seen yet is to be looked
    for again. Raises ``Unavailable``.
    """
    try:
        return tuple(
            replica
            for replica, nonce in sorted(markers.items())
            if _read(root / _MARKERS / replica, 0, _MARKER_BYTES) != nonce.encode()
        )
    except OSError as error:
        raise unavailable(f"{root} cannot be read", error) from error


def unmark(root: Path, replica: str) -> None:
    """Remove this replica's marker when it ends."""
    with contextlib.suppress(OSError):
        (root / _MARKERS / replica).unlink(missing_ok=True)
