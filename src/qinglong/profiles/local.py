"""The in-process link: the local machine is a worker like any other, under the same leases."""

from __future__ import annotations

import asyncio
from pathlib import Path

from qinglong.control.service import LogChunk
from qinglong.control.sync import WorkerDoor
from qinglong.wire.worker import Register, Registered, Reply, Sync
from qinglong.worker.host import AttemptKey
from qinglong.worker.linux import joblog
from qinglong.worker.linux.folder import log_path

WORKER = "local"


class LocalLink:
    """``worker.link.Link`` by plain calls. Its identity is the process itself."""

    def __init__(self, door: WorkerDoor) -> None:
        self._door = door

    async def register(self, said: Register) -> Registered:
        """See the port. Holding the data folder's lock proves that the former process is gone (design section 8)."""
        await self._door.former_is_gone(WORKER)
        return await self._door.register(WORKER, said)

    async def sync(self, request: Sync, poke: asyncio.Event) -> Reply:
        """See the port."""
        return await self._door.sync(WORKER, request, poke)

    async def transition(self, session_id: str, generation: int, state: str) -> None:
        """See the port."""
        await self._door.transition(WORKER, session_id, generation, state)


class LocalLogs:
    """``control.service.Logs`` where the worker's log files are the store: nothing is uploaded or copied."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    async def read(self, run_id: str, step: str, number: int, offset: int, limit: int) -> LogChunk | None:
        """See the port."""
        path = log_path(self._folder, AttemptKey(run_id, step, number))
        try:
            chunk = joblog.read(path, offset, limit)
        except FileNotFoundError:
            return None
        return LogChunk(chunk.data, chunk.offset, chunk.next_offset, chunk.end, chunk.gap)
