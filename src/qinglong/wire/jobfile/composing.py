"""YAML text to a tree that still knows where everything stood and how it was written.

PyYAML's own loaders turn ``on`` into true and ``1:30`` into 90, keep the last of two equal keys and expand
aliases without bound. This composer reads the parser's events instead: scalars keep their source text,
duplicate keys are refused with both places, depth and expansion are bounded (I10), and nothing recurses.
"""

from __future__ import annotations

from typing import Final

import yaml

from qinglong.limits import FILE_SET_BYTES, JOB_FILE_DEPTH, MIB
from qinglong.wire.jobfile.nodes import Mapping, Node, Place, Scalar, Sequence
from qinglong.wire.jobfile.problems import Problems, label, quoted
from qinglong.wire.jobfile.syntax import explain, forbidden_character

_LOADER: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_TAG_PREFIX: Final = "tag:yaml.org,2002:"
_STANDARD_TAGS: Final = {
    yaml.ScalarEvent: f"{_TAG_PREFIX}str",
    yaml.SequenceStartEvent: f"{_TAG_PREFIX}seq",
    yaml.MappingStartEvent: f"{_TAG_PREFIX}map",
}


def compose(text: str, problems: Problems) -> Node | None:
    """The tree of the one document in ``text``; ``None`` when there is none to read. Never raises."""
    forbidden = forbidden_character(text)
    if forbidden:
        problems.add(*forbidden)
        return None
    composer = _Composer(problems)
    try:
        for event in yaml.parse(text, Loader=_LOADER):
            composer.take(event)
    except _Stop:
        return composer.root if composer.documents > 1 else None
    except (yaml.YAMLError, ValueError, OverflowError) as error:
        problems.add(*explain(error, text))
        return None
    if composer.root is None or (isinstance(composer.root, Scalar) and composer.root.null):
        problems.add((0, 0), "", "empty", "the file is empty", "start with: version: 1")
        return None
    return composer.root


class _Stop(Exception):
    """The problem is reported and reading on makes no sense."""


class _Frame:
    """A list or mapping whose end has not been seen yet."""

    __slots__ = ("key", "keys", "merges", "node")

    def __init__(self, node: Sequence | Mapping) -> None:
        self.node = node
        self.key: Node | None = None
        self.keys: dict[str, Place] = {}
        self.merges: list[Node] = []


class _Composer:
    """Takes parser events one by one; ``root`` is the finished tree."""

    def __init__(self, problems: Problems) -> None:
        self.root: Node | None = None
        self.documents = 0
        self._problems = problems
        self._frames: list[_Frame] = []
        self._anchors: dict[str, Node] = {}
        self._open: set[int] = set()
        self._total = 0

    def take(self, event: yaml.Event) -> None:
        mark = event.start_mark
        place = (mark.line + 1, mark.column + 1) if mark else (0, 0)
        if isinstance(event, yaml.ScalarEvent):
            plain = bool(event.implicit[0]) and event.tag is None
            self._begin(event, Scalar(place, event.value, plain))
        elif isinstance(event, yaml.MappingStartEvent):
            self._begin(event, Mapping(place))
        elif isinstance(event, yaml.SequenceStartEvent):
            self._begin(event, Sequence(place))
        elif isinstance(event, yaml.CollectionEndEvent):
            self._end()
        elif isinstance(event, yaml.AliasEvent):
            self._alias(event.anchor or "", place)
        elif isinstance(event, yaml.DocumentStartEvent):
            self._document(place)

    def _document(self, place: Place) -> None:
        self.documents += 1
        if self.documents > 1:
            remedy = "remove the line ---, or make it two files"
            self._problems.add(place, "", "several_documents", "a second document begins here", remedy)
            raise _Stop

    def _begin(self, event: yaml.NodeEvent, node: Scalar | Sequence | Mapping) -> None:
        tag = getattr(event, "tag", None)
        if tag not in {None, "!", _STANDARD_TAGS[type(event)]}:
            remedy = "remove the tag: values are read as they are written"
            message = f"the tag {quoted(str(tag).replace(_TAG_PREFIX, '!!'))} is not supported"
            self._problems.add(node.place, self._field(), "tag", message, remedy)
        self._spend(node.weight, node.place)
        if event.anchor is not None:
            self._anchors[event.anchor] = node
        if isinstance(node, Scalar):
            self._attach(node)
            return
        if len(self._frames) >= JOB_FILE_DEPTH:
            message = f"nested deeper than {JOB_FILE_DEPTH} levels"
            self._problems.add(
                node.place, self._field(), "too_deep", message, "a job file needs about six levels"
            )
            raise _Stop
        self._frames.append(_Frame(node))
        self._open.add(id(node))

    def _end(self) -> None:
        frame = self._frames.pop()
        self._open.discard(id(frame.node))
        if isinstance(frame.node, Mapping):
            for merged in frame.merges:
                self._merge(frame.node, merged)
        self._attach(frame.node)

    def _alias(self, name: str, place: Place) -> None:
        node = self._anchors.get(name)
        if node is None or id(node) in self._open:
            message = (
                f"the alias *{name} names no anchor above it" if node is None else f"*{name} contains itself"
            )
            remedy = f'define it further up as &{name}; a text that begins with * needs quotes: "*{name}"'
            self._problems.add(place, self._field(), "alias", message, remedy)
            node = Node(place)
        self._spend(node.weight, place)
        self._attach(node)

    def _spend(self, weight: int, place: Place) -> None:
        self._total += weight
        if self._total > FILE_SET_BYTES:
            message = f"the file takes more than {FILE_SET_BYTES // MIB} MiB once its aliases are written out"
            self._problems.add(place, "", "too_large", message, "use fewer aliases, or `defaults`")
            raise _Stop

    def _field(self, *more: str) -> str:
        """The dotted field that is being read."""
        names: list[str] = []
        for frame in self._frames:
            if isinstance(frame.node, Sequence):
                names.append(f"[{len(frame.node.items)}]")
            elif isinstance(frame.key, Scalar):
                names.append(f".{label(frame.key.text)}")
        return "".join((*names, *(f".{name}" for name in more))).removeprefix(".")

    def _attach(self, node: Node) -> None:
        """Hand a finished value to the list or mapping that it stands in."""
        if not self._frames:
            self.root = node
            return
        frame = self._frames[-1]
        frame.node.weight += node.weight
        if isinstance(frame.node, Sequence):
            frame.node.items.append(node)
        elif frame.key is None:
            frame.key = node
        else:
            self._entry(frame, frame.node, frame.key, node)
            frame.key = None

    def _entry(self, frame: _Frame, mapping: Mapping, key: Node, value: Node) -> None:
        if not isinstance(key, Scalar) or key.null:
            if type(key) is not Node:
                remedy = "write a name before the colon"
                self._problems.add(key.place, self._field(), "key", "a key must be a text", remedy)
            return
        merge = key.plain and key.text == "<<"
        if key.text in frame.keys:
            message = (
                f"{quoted(key.text)} stands twice in one mapping, first in line {frame.keys[key.text][0]}"
            )
            remedy = "merge a list instead: <<: [*a, *b]" if merge else "keep one of the two"
            self._problems.add(key.place, self._field(), "duplicate_key", message, remedy)
            return
        frame.keys[key.text] = key.place
        if merge:
            frame.merges.append(value)
        else:
            mapping.entries[key.text] = (key, value)

    def _merge(self, mapping: Mapping, merged: Node) -> None:
        """Add the keys of a merged mapping (or of several, the first wins) that the mapping lacks."""
        for source in merged.items if isinstance(merged, Sequence) else [merged]:
            if isinstance(source, Mapping):
                for name, entry in source.entries.items():
                    mapping.entries.setdefault(name, entry)
            elif type(source) is not Node:
                remedy = "write <<: *name, or <<: [*one, *two]"
                self._problems.add(
                    source.place, self._field(label("<<")), "merge", "only mappings can be merged", remedy
                )
