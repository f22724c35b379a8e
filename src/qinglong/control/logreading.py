"""Reading a log from a store, while it grows and after it was sealed."""

from __future__ import annotations

from typing import Final

import msgspec

from qinglong.control.loglayout import (
    Chunk,
    Layout,
    Sealed,
    Slice,
    Span,
    beside,
    chain,
    layout_of,
    sealed_chunks,
)
from qinglong.control.logstore import LogKey, Objects
from qinglong.control.service import LogChunk
from qinglong.errors import Damaged, Unavailable
from qinglong.limits import LOG_READ_BYTES

TRIES: Final = 4
"""Looks at a folder whose objects another replica is merging."""
_READ_OBJECTS: Final = 16
"""Most objects that one read takes its bytes from."""
_decode = msgspec.json.Decoder(Sealed).decode


class Moved(Exception):
    """An object that was listed is gone: another replica has merged it, so look again."""


class View(msgspec.Struct, frozen=True):
    """What a reader may see of a log: what its seal lists, else everything that is there."""

    chunks: tuple[Chunk, ...]
    gap: Span | None
    length: int
    sealed: Sealed | None


async def look(objects: Objects, key: LogKey) -> Layout:
    """The names in the log's folder."""
    return layout_of(await objects.names(key.folder))


async def view(objects: Objects, key: LogKey, layout: Layout) -> View:
    """What the layout amounts to. Raises ``Moved``, ``Damaged``, ``Unavailable``."""
    if not layout.seals:
        return View(layout.chunks, layout.gap, layout.next_offset, None)
    name = layout.seals[0]
    body = await objects.get(key.folder, name, 0, LOG_READ_BYTES)
    if body is None:
        raise Moved
    try:
        sealed = _decode(body)
    except msgspec.DecodeError as error:
        raise Damaged("log_damaged", f"its seal cannot be read: {error}", place=str(key)) from error
    gap = None if sealed.gap is None else Span(*sealed.gap)
    return View(sealed_chunks(sealed), gap, sealed.said.length, sealed)


async def read(objects: Objects, key: LogKey, offset: int, limit: int) -> tuple[LogChunk, bool] | None:
    """At most ``limit`` bytes from ``offset``, and whether the log is sealed; ``None`` if there is no log.

    A piece never spans the gap. Raises ``Damaged`` (``log_differs``) where two chunks disagree, and ``Unavailable``.
    """
    for _ in range(TRIES):
        layout = await look(objects, key)
        if not any(layout):
            return None
        try:
            seen = await view(objects, key, layout)
            return await _piece(
                objects, key, seen, offset, min(limit, LOG_READ_BYTES)
            ), seen.sealed is not None
        except Moved:
            if layout.seals:
                raise Damaged("log_damaged", "an object of it is missing", place=str(key)) from None
    raise Unavailable("log_busy", "its objects are being merged", place=str(key), remedy="try again")


async def _piece(objects: Objects, key: LogKey, seen: View, offset: int, limit: int) -> LogChunk:
    start, stop, gap = offset, seen.length, None
    if seen.gap is not None and offset < seen.gap.start:
        stop = min(stop, seen.gap.start)
    elif seen.gap is not None and offset < seen.gap.end:
        start, gap = seen.gap.end, (offset, seen.gap.end)
    slices = chain(seen.chunks, start, min(stop, start + limit))[:_READ_OBJECTS]
    data = await fetch(objects, key, slices)
    if seen.sealed is None:
        await compare(objects, key, start, data, beside(seen.chunks, slices))
    after = start + len(data)
    return LogChunk(data, start, after, after >= seen.length, gap)


async def fetch(objects: Objects, key: LogKey, slices: list[Slice]) -> bytes:
    """The bytes of the slices, one after the other. Raises ``Moved``."""
    return b"".join([await _fetch(objects, key, one) for one in slices])


async def _fetch(objects: Objects, key: LogKey, one: Slice) -> bytes:
    size = one.end - one.start
    data = await objects.get(key.folder, one.chunk.name, one.start - one.chunk.start, size)
    if data is None:
        raise Moved
    if len(data) != size:
        raise Damaged("log_damaged", f"object {one.chunk.name} is shorter than it says", place=str(key))
    return data


async def compare(objects: Objects, key: LogKey, start: int, data: bytes, others: list[Slice]) -> None:
    """Raises ``Damaged`` (``log_differs``) unless the other chunks say the same as ``data`` at ``start``."""
    for one in others:
        if await _fetch(objects, key, one) != data[one.start - start : one.end - start]:
            raise differs(key, f"two pieces disagree between {one.start} and {one.end}")


def differs(key: LogKey, how: str) -> Damaged:
    """The output is not what was said of it before, as when a job rewrites its own log."""
    return Damaged(
        "log_differs", how, place=str(key), remedy="the worker's own file has what the command wrote"
    )
