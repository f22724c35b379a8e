"""The log files of this machine, for whoever sends them to a store (``worker/uploading.py``)."""

from __future__ import annotations

from pathlib import Path

from qinglong.worker.host import AttemptKey
from qinglong.worker.linux import folder, joblog
from qinglong.worker.uploading import LogPiece


class LinuxLogFiles:
    """``worker.uploading.LogFiles`` in the Attempts' folders below ``root``."""

    def __init__(self, root: Path) -> None:
        self._root = root.absolute()

    def length(self, key: AttemptKey) -> int:
        """See the port."""
        return joblog.length(folder.log_path(self._root, key))

    def read(self, key: AttemptKey, offset: int, limit: int) -> LogPiece:
        """See the port."""
        try:
            chunk = joblog.read(folder.log_path(self._root, key), offset, limit)
        except FileNotFoundError:
            return LogPiece(b"", offset, True, None)
        return LogPiece(chunk.data, chunk.offset, chunk.end, chunk.gap)

    def gap(self, key: AttemptKey) -> tuple[int, int] | None:
        """See the port."""
        return joblog.gap(folder.log_path(self._root, key))

    def forget(self, key: AttemptKey) -> None:
        """See the port."""
        folder.forget(self._root, key, log=True)
