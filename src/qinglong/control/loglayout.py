"""How a log lies in a store: its objects' names say everything about it, whoever wrote them.

``c.OFFSET.LENGTH.DIGEST`` holds bytes; ``g.START.END`` (no bytes) says that a range was cut out because of the cap;
``f.OFFSET.LENGTH.DIGEST`` holds bytes of a finished log, and ``s.DIGEST`` seals it and lists them. Chunks (``c``) may
overlap: two replicas stored the same piece, or a merged chunk stands beside those that it replaces. Pure; offsets are
logical (ADR 0003).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from typing import Final, NamedTuple

import msgspec

from qinglong.wire.worker import LogSeal

_CHUNK: Final = re.compile(r"([cf])\.(\d{16})\.(\d+)\.[0-9a-f]{32}")
_GAP: Final = re.compile(r"g\.(\d{16})\.(\d{16})")
_SEAL: Final = re.compile(r"s\.[0-9a-f]{32}")


class Span(NamedTuple):
    """The bytes from ``start`` up to before ``end``."""

    start: int
    end: int

    def holds(self, other: Span) -> bool:
        """Whether all of ``other`` lies in it."""
        return self.start <= other.start and other.end <= self.end


class Chunk(NamedTuple):
    """One object with bytes of the log."""

    start: int
    end: int
    name: str

    def inside(self, other: Chunk) -> bool:
        """Whether ``other`` has all of its bytes and more."""
        return other.start <= self.start and self.end <= other.end and other[:2] != self[:2]


class Slice(NamedTuple):
    """The bytes from ``start`` up to before ``end``, as they lie in ``chunk``."""

    start: int
    end: int
    chunk: Chunk


class Sealed(msgspec.Struct, frozen=True):
    """The object that seals a log: what its bytes are, and where. Nothing else in the folder counts any more."""

    said: LogSeal
    """The worker's word."""
    gap: tuple[int, int] | None
    chunks: tuple[str, ...]
    """Names of its ``f`` objects, which nothing ever merges or deletes."""


class Layout(NamedTuple):
    """What the names in a folder say."""

    chunks: tuple[Chunk, ...] = ()
    """By start, then end, then name."""
    gaps: tuple[str, ...] = ()
    """Names of the objects that note what was cut out."""
    seals: tuple[str, ...] = ()

    @property
    def gap(self) -> Span | None:
        """The one hole of the log: it only grows, so what several notes name is one range."""
        spans = [span for name in self.gaps if (span := _gap(name)) is not None]
        if not spans:
            return None
        return Span(min(span.start for span in spans), max(span.end for span in spans))

    @property
    def next_offset(self) -> int:
        """How far the log is there without interruption."""
        known = [Span(chunk.start, chunk.end) for chunk in self.chunks]
        if self.gap is not None:
            known.append(self.gap)
        end = 0
        for span in sorted(known):
            if span.start > end:
                break
            end = max(end, span.end)
        return end


def layout_of(names: Iterable[str]) -> Layout:
    """What the names say; those of other things (a file that is being written) say nothing."""
    found = tuple(names)
    gaps = tuple(sorted(name for name in found if _GAP.fullmatch(name)))
    seals = tuple(sorted(name for name in found if _SEAL.fullmatch(name)))
    return Layout(_chunks(found, "c"), gaps, seals)


def sealed_chunks(sealed: Sealed) -> tuple[Chunk, ...]:
    """The chunks of a sealed log."""
    return _chunks(sealed.chunks, "f")


def _chunks(names: tuple[str, ...], kind: str) -> tuple[Chunk, ...]:
    matches = (found for name in names if (found := _CHUNK.fullmatch(name)) is not None and found[1] == kind)
    return tuple(sorted(Chunk(int(one[2]), int(one[2]) + int(one[3]), one[0]) for one in matches))


def chunk_of(start: int, data: bytes, kind: str = "c") -> Chunk:
    """The chunk that ``data`` at logical offset ``start`` makes; ``kind`` ``f``: of a finished log."""
    digest = hashlib.sha256(data).hexdigest()[:32]
    return Chunk(start, start + len(data), f"{kind}.{start:016d}.{len(data)}.{digest}")


def gap_name(gap: Span) -> str:
    """The name that notes a gap."""
    return f"g.{gap.start:016d}.{gap.end:016d}"


def seal_name(body: bytes) -> str:
    """The name of a seal."""
    return f"s.{hashlib.sha256(body).hexdigest()[:32]}"


def _gap(name: str) -> Span | None:
    found = _GAP.fullmatch(name)
    return None if found is None else Span(int(found[1]), int(found[2]))


def sides(gap: Span | None, length: int) -> list[Span]:
    """What is kept of a log: all of it, or head and tail."""
    return [Span(0, length)] if gap is None else [Span(0, gap.start), Span(gap.end, length)]


def chain(chunks: tuple[Chunk, ...], start: int, end: int) -> list[Slice]:
    """Slices that make up ``start`` to ``end`` in order, long chunks first; shorter where chunks are missing."""
    found: list[Slice] = []
    at = start
    while at < end:
        here = [chunk for chunk in chunks if chunk.start <= at < chunk.end]
        if not here:
            break
        best = max(here, key=lambda chunk: (chunk.end, chunk.name))
        found.append(Slice(at, min(best.end, end), best))
        at = found[-1].end
    return found


def beside(chunks: tuple[Chunk, ...], slices: list[Slice]) -> list[Slice]:
    """What other chunks say about the bytes of these slices: it must be the same."""
    return [
        Slice(max(one.start, chunk.start), min(one.end, chunk.end), chunk)
        for one in slices
        for chunk in chunks
        if chunk.name != one.chunk.name and chunk.start < one.end and one.start < chunk.end
    ]


def groups(chunks: tuple[Chunk, ...], most: int) -> list[list[Chunk]]:
    """Neighbours to be merged into one object each, of up to ``most`` bytes; chunks of half of that stay alone.

    Those that overlap in part go together also where that makes more, up to four times ``most``.
    """
    made: list[list[Chunk]] = []
    for chunk in chunks:
        if any(chunk.inside(other) for other in chunks):
            continue
        last = made[-1] if made else []
        size = chunk.end - last[0].start if last else 0
        overlaps = bool(last) and chunk.start < last[-1].end and size <= 4 * most
        touches = bool(last) and chunk.start == last[-1].end and size <= most
        if overlaps or (touches and small(chunk, most) and small(last[-1], most)):
            last.append(chunk)
        else:
            made.append([chunk])
    return made


def small(chunk: Chunk, most: int) -> bool:
    """Whether it should be merged with its neighbours once there are many."""
    return (chunk.end - chunk.start) * 2 < most
