"""Writing a log to a store: pieces in order, one hole in the middle, merged and sealed at the end.

No step needs to be the only one: objects never change, and one is deleted only after others that make up for it are
durable. So replicas may work on the same log at once, and a crash anywhere leaves a log that reads the same.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterator
from typing import Final

import msgspec

from qinglong.control.loglayout import (
    Chunk,
    Layout,
    Sealed,
    Span,
    beside,
    chain,
    chunk_of,
    gap_name,
    groups,
    seal_name,
    sides,
    small,
)
from qinglong.control.logreading import TRIES, Moved, View, compare, differs, fetch, look, view
from qinglong.control.logstore import LogKey, Objects
from qinglong.errors import Damaged, Unavailable
from qinglong.limits import LOG_MERGE_AFTER, LOG_OBJECT_BYTES
from qinglong.wire.worker import LogAck, LogPart, LogSeal

log = logging.getLogger("qinglong.logs")
_encode: Final = msgspec.json.encode


class LogWriter:
    """One Attempt's log. ``cap_bytes``: how much of it is kept, half at the head and half at the tail.

    Disk or bucket then hold at most the cap and a few ``LOG_OBJECT_BYTES`` of it.
    """

    def __init__(self, objects: Objects, key: LogKey, cap_bytes: int) -> None:
        self._objects = objects
        self._key = key
        self._cap = cap_bytes

    async def append(self, part: LogPart, body: bytes) -> LogAck:
        """Store what is new in ``body``, and seal the log if the part says so. Raises ``Unavailable``.

        Refusals: ``differs`` (bytes that are there already are others, or the seal does not fit), ``sealed``.
        """
        for _ in range(TRIES):
            try:
                return await self._append(part, body)
            except Moved:
                continue
            except Damaged as error:
                if error.code != "log_differs":
                    raise
                log.warning("a piece of a log is refused: %s", error)
                return LogAck(0, refused="differs")
        raise Unavailable(
            "log_busy", "its objects are being merged", place=str(self._key), remedy="try again"
        )

    async def _append(self, part: LogPart, body: bytes) -> LogAck:
        layout = await look(self._objects, self._key)
        seen = await view(self._objects, self._key, layout)
        known = seen.length
        if (part.offset if part.gap_from is None else part.gap_from) > known:
            return LogAck(known, sealed=seen.sealed is not None)
        await self._agree(seen, part.offset, body)
        if seen.sealed is not None:
            return await self._after_seal(layout, seen.sealed, part, part.offset + len(body))
        if part.seal is not None and not any(layout) and _is_all(part.seal, body):
            return await self._finish(layout, part.seal, None, [chunk_of(0, body, "f")] if body else [], body)
        if part.offset > known:
            layout = await self._note(layout, Span(known, part.offset))
            known = part.offset
        new = body[known - part.offset :]
        if new:
            chunk = chunk_of(known, new)
            await self._objects.put(self._key.folder, chunk.name, new)
            layout = layout._replace(chunks=tuple(sorted({*layout.chunks, chunk})))
        if part.seal is not None:
            return await self._seal(layout, part, part.seal)
        layout = await self._trim(layout)
        await self._tidy(layout)
        return LogAck(layout.next_offset)

    async def _agree(self, seen: View, offset: int, body: bytes) -> None:
        """What is there already must be what the part says."""
        start, end = offset, min(offset + len(body), seen.length)
        spans = [Span(start, end)]
        if seen.gap is not None:
            spans = [Span(start, min(end, seen.gap.start)), Span(max(start, seen.gap.end), end)]
        for span in spans:
            await compare(self._objects, self._key, offset, body, chain(seen.chunks, *span))

    # The hole

    async def _note(self, layout: Layout, gap: Span) -> Layout:
        """Note that a range is cut out, then remove what lay in it and the notes that this one replaces."""
        gap = _union(gap, layout.gap)
        name = gap_name(gap)
        await self._objects.put(self._key.folder, name, b"")
        gone = [chunk for chunk in layout.chunks if gap.holds(Span(chunk.start, chunk.end))]
        notes = [note for note in layout.gaps if note != name]
        await self._delete([*(chunk.name for chunk in gone), *notes])
        return Layout(tuple(chunk for chunk in layout.chunks if chunk not in gone), (name,))

    async def _trim(self, layout: Layout) -> Layout:
        """Hold a growing log to the cap, in steps of ``LOG_OBJECT_BYTES`` or more and by whole chunks."""
        head = self._cap // 2
        tail = layout.next_offset - (self._cap - head)
        cut = max(
            (chunk.end for chunk in layout.chunks if head <= chunk.start and chunk.end <= tail), default=0
        )
        done = head if layout.gap is None else layout.gap.end
        if cut - done < LOG_OBJECT_BYTES:
            return layout
        return await self._note(layout, Span(head, cut))

    # Merging

    async def _tidy(self, layout: Layout) -> None:
        """Merge small chunks once there are many, and at once those that overlap.

        A chunk is deleted only when one other, that is durable, has all of its bytes *and more*. So whatever several
        replicas merge and delete at once, a largest chunk for each byte stays.
        """
        chunks = layout.chunks
        many = sum(small(chunk, LOG_OBJECT_BYTES) for chunk in chunks) > LOG_MERGE_AFTER
        if not many and not _overlap(chunks):
            return
        for group in groups(chunks, LOG_OBJECT_BYTES):
            whole = Chunk(group[0].start, max(chunk.end for chunk in group), "")
            slices = chain(chunks, whole.start, whole.end)
            others = beside(chunks, slices)
            if len(group) == 1 and not others:
                continue
            data = await fetch(self._objects, self._key, slices)
            await compare(self._objects, self._key, whole.start, data, others)
            await self._objects.put(self._key.folder, chunk_of(whole.start, data).name, data)
            await self._delete([chunk.name for chunk in chunks if chunk.inside(whole)])

    async def _delete(self, names: list[str]) -> None:
        if names:
            await self._objects.delete(self._key.folder, names)

    # The seal

    async def _seal(self, layout: Layout, part: LogPart, said: LogSeal) -> LogAck:
        """Copy what is kept into the objects of a finished log, and check the worker's digest over it."""
        length = layout.next_offset
        if length < said.length:
            return LogAck(length)
        gap = None if part.gap_from is None else Span(part.gap_from, part.offset)
        if length > said.length or said.dropped != (0 if gap is None else gap.end - gap.start):
            raise differs(self._key, f"its seal does not fit the {length} bytes that are there")
        checked = layout.gap is None or (gap is not None and gap.holds(layout.gap))
        if not checked and layout.gap is not None:
            gap = _union(layout.gap, gap)
            log.warning("the digest of a log cannot be checked, more of it was cut out here: %s", self._key)
        digest = hashlib.sha256()
        chunks: list[Chunk] = []
        for start, end in _pieces(gap, length):
            data = await fetch(self._objects, self._key, chain(layout.chunks, start, end))
            digest.update(data)
            chunks.append(chunk_of(start, data, "f"))
            await self._objects.put(self._key.folder, chunks[-1].name, data)
        if checked and digest.hexdigest() != said.digest:
            raise differs(self._key, "its digest is another")
        return await self._finish(layout, said, gap, chunks)

    async def _finish(
        self, layout: Layout, said: LogSeal, gap: Span | None, chunks: list[Chunk], body: bytes = b""
    ) -> LogAck:
        """Seal what the chunks make up, then remove what they replace. ``body`` of the one is still to be put."""
        if body:
            await self._objects.put(self._key.folder, chunks[0].name, body)
        seal = _encode(Sealed(said, gap, tuple(chunk.name for chunk in chunks)))
        await self._objects.put(self._key.folder, seal_name(seal), seal)
        await self._clear(layout)
        return LogAck(said.length, sealed=True)

    async def _after_seal(self, layout: Layout, sealed: Sealed, part: LogPart, end: int) -> LogAck:
        """What was sealed never changes; what repeats it is answered alike."""
        if end > sealed.said.length or part.seal not in {None, sealed.said}:
            return LogAck(sealed.said.length, sealed=True, refused="sealed")
        await self._clear(layout)
        return LogAck(sealed.said.length, sealed=True)

    async def _clear(self, layout: Layout) -> None:
        """Remove what the seal replaces, also what a crash left of it."""
        await self._delete([*(chunk.name for chunk in layout.chunks), *layout.gaps])


def _is_all(seal: LogSeal, body: bytes) -> bool:
    """Whether ``body`` is all of the log: most logs are that short, and take two objects and no merging."""
    fits = seal.length == len(body) and seal.dropped == 0
    return fits and hashlib.sha256(body).hexdigest() == seal.digest


def _union(one: Span, other: Span | None) -> Span:
    return one if other is None else Span(min(one.start, other.start), max(one.end, other.end))


def _overlap(chunks: tuple[Chunk, ...]) -> bool:
    reached = 0
    for chunk in chunks:
        if chunk.start < reached:
            return True
        reached = chunk.end
    return False


def _pieces(gap: Span | None, length: int) -> Iterator[Span]:
    """Where the objects of a finished log begin and end: the same whoever seals it, so they have the same names."""
    for side in sides(gap, length):
        for start in range(side.start, side.end, LOG_OBJECT_BYTES):
            yield Span(start, min(start + LOG_OBJECT_BYTES, side.end))
