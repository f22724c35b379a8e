"""The data folder: made, checked and locked before anything is opened in it (design section 5)."""

from __future__ import annotations

import fcntl
import os
import select
from pathlib import Path

from qinglong.errors import Refused, Unavailable

_NETWORK = {
    "nfs",
    "nfs4",
    "cifs",
    "smb3",
    "smbfs",
    "9p",
    "afs",
    "ceph",
    "glusterfs",
    "lustre",
    "ncpfs",
    "sshfs",
}
_NETWORK_FUSE = {"fuse.sshfs", "fuse.glusterfs", "fuse.s3fs", "fuse.rclone", "fuse.ceph-fuse", "fuse.davfs"}

_TRIES, _TRY_S = 10, 0.02
"""Somebody who only asks whether the folder is in use shares its lock for an instant."""


class DataFolder:
    """A folder that this process owns by a kernel lock; the lock ends with the process, however it ends.

    Holding it proves that the former owner is gone, which no pid file could.
    """

    def __init__(self, path: Path, mounts: Path = Path("/proc/self/mountinfo")) -> None:
        self.path = path
        self._mounts = mounts
        self._lock: int | None = None

    def open(self) -> None:
        """Make the folder (mode 0700), check it, take the lock.

        Raises ``Refused`` on a network file system or a folder that cannot be written, ``Unavailable`` when
        another process holds it.
        """
        try:
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise self._unwritable(error) from error
        kind = filesystem(self.path, self._mounts)
        if kind in _NETWORK or kind in _NETWORK_FUSE:
            raise Refused(
                "data_on_network",
                f"{self.path} lies on a network file system ({kind}), where locks and fsync cannot be trusted",
                remedy="choose a local folder with --data or $QL_DATA",
            )
        try:
            probe = self.path / f".probe.{os.getpid()}"
            probe.write_bytes(b"")
            probe.unlink()
            descriptor = os.open(self.path / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise self._unwritable(error) from error
        if not _locked(descriptor):
            os.close(descriptor)
            raise Unavailable(
                "data_in_use",
                f"another ql uses {self.path}",
                remedy="stop it first, or choose another folder with --data",
            )
        self._lock = descriptor

    def close(self) -> None:
        """Give the lock back."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _unwritable(self, error: OSError) -> Refused:
        return Refused(
            "data_not_writable",
            f"the data folder {self.path} cannot be written: {error.strerror}",
            remedy="fix its owner and mode, or choose another with --data or $QL_DATA",
        )


def in_use(path: Path) -> bool:
    """Whether a server holds the folder's lock, also where there is no lock file to ask.

    It is asked by sharing the lock for an instant, which is why :meth:`DataFolder.open` tries for a moment.
    """
    try:
        descriptor = os.open(path / "lock", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return True
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(descriptor)
    return False


def _locked(descriptor: int) -> bool:
    for _ in range(_TRIES):
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            select.select((), (), (), _TRY_S)
        else:
            return True
    return False


def filesystem(path: Path, mounts: Path = Path("/proc/self/mountinfo")) -> str:
    """Type of the file system that holds ``path`` (proc(5), mountinfo); empty if it cannot be told."""
    try:
        lines = mounts.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError:
        return ""
    target = os.path.realpath(path)
    best, kind = "", ""
    for line in lines:
        left, _, right = line.partition(" - ")
        point = _unescape(left.split()[4])
        inside = target == point or target.startswith(point.rstrip("/") + "/")
        if inside and len(point) >= len(best):
            best, kind = point, right.split()[0]
    return kind


def _unescape(text: str) -> str:
    return text.replace("\\040", " ").replace("\\011", "\t").replace("\\012", "\n").replace("\\134", "\\")
