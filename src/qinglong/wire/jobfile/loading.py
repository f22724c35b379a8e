"""From texts or paths to one file set, or to everything that is wrong with it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from qinglong.domain import definitions
from qinglong.domain.definitions import FileSet, TaskSpec
from qinglong.limits import FILE_SET_BYTES, JOB_FILE_BYTES, KIB, MIB, REQUEST_BYTES, TASKS_PER_SET
from qinglong.wire.jobfile.composing import compose
from qinglong.wire.jobfile.document import Document, read_head, read_tasks
from qinglong.wire.jobfile.problems import Problems, shown
from qinglong.wire.jobfile.reading import Cursor
from qinglong.wire.problem import Problem

FileExists = Callable[[str], bool]
Result = tuple[FileSet | None, list[Problem]]


def load(text: str, *, path: str, machine_zone: str, file_exists: FileExists | None = None) -> Result:
    """Read the text of one job file.

    ``path`` is the file's name as it shall be shown; its folder is where relative paths count from (the
    working directory for ``-``). ``machine_zone`` is the IANA zone of schedules when the file names none.
    With ``file_exists`` scripts and env files must exist. Never raises for anything that ``text`` holds:
    either the file set is returned, or ``None`` with all problems in file order, at most ``ERRORS_SHOWN``.
    """
    problems = Problems(path)
    if len(text) > JOB_FILE_BYTES or len(text.encode("utf-8", "surrogatepass")) > JOB_FILE_BYTES:
        _too_large(problems)
        return None, shown([problems])
    return _load([_Source(problems, text)], machine_zone, file_exists)


def load_files(paths: Sequence[str], *, machine_zone: str, file_exists: FileExists | None = None) -> Result:
    """Read several job files as one file set; the arguments and the result are those of :func:`load`.

    The files must name the same project and may use each other's concurrency groups; ``timezone`` and
    ``defaults`` hold for their own file only. Unreadable files are problems, not exceptions.
    """
    sources = []
    seen: dict[str, str] = {}
    for path in paths:
        problems = Problems(path)
        same = path if "\0" in path else os.path.realpath(path)
        if same in seen:
            message = (
                "the file is named twice" if seen[same] == path else f"the file is the same as {seen[same]}"
            )
            problems.add((0, 0), "", "repeated_file", message, "name each file once")
        seen.setdefault(same, path)
        sources.append(_Source(problems, "" if problems.any else _read(path, problems)))
    return _load(sources, machine_zone, file_exists)


class _Source(NamedTuple):
    problems: Problems
    text: str


def _read(path: str, problems: Problems) -> str:
    try:
        with Path(path).open("rb") as stream:
            raw = stream.read(JOB_FILE_BYTES + 1)
    except FileNotFoundError:
        problems.add((0, 0), "", "no_such_file", "there is no such file", "mend the path")
    except IsADirectoryError:
        remedy = f"name the files in it, as {path.rstrip('/')}/*.yaml"
        problems.add((0, 0), "", "is_folder", "this is a folder, not a file", remedy)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        remedy = "make it readable for the account that runs this command"
        problems.add((0, 0), "", "unreadable_file", f"it cannot be read: {reason}", remedy)
    else:
        return _decode(raw, problems)
    return ""


def _decode(raw: bytes, problems: Problems) -> str:
    if len(raw) > JOB_FILE_BYTES:
        _too_large(problems)
        return ""
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = raw[: error.start]
        column = len(before[before.rfind(b"\n") + 1 :].decode("utf-8", "replace")) + 1
        message = f"the byte 0x{raw[error.start]:02x} is not UTF-8"
        place = (before.count(b"\n") + 1, column)
        problems.add(place, "", "not_utf8", message, "save the file as UTF-8")
        return ""


def _too_large(problems: Problems) -> None:
    message = f"the file is larger than {JOB_FILE_BYTES // MIB} MiB"
    problems.add((0, 0), "", "too_large", message, "split it, or move long commands into scripts")


def _load(sources: Iterable[_Source], machine_zone: str, file_exists: FileExists | None) -> Result:
    collectors: list[Problems] = []
    documents: list[Document] = []
    for problems, text in sources:
        collectors.append(problems)
        root = None if problems.any else compose(text, problems)
        if root is not None:
            folder = _folder(problems.path)
            documents.append(read_head(root, folder, machine_zone, problems))
    groups = _common_groups(documents)
    _same_project(documents)
    tasks = _all_tasks(documents, groups, file_exists)
    found = shown(collectors)
    if found or not documents:
        return None, found
    return FileSet(documents[0].project, groups, tuple(tasks)), []


def _folder(path: str) -> str:
    """The absolute folder of a file, the same however the file was named.

    Links stay as they are, except where ``..`` follows one: only the file system knows where that leads.
    """
    folder = Path(path).absolute().parent
    return os.path.realpath(folder) if ".." in folder.parts else str(folder)


def _common_groups(documents: Sequence[Document]) -> dict[str, int]:
    first: dict[str, tuple[int, Cursor]] = {}
    for document in documents:
        for name, (size, at) in document.groups.items():
            known, place = first.setdefault(name, (size, at))
            if known != size:
                where = f"{place.problems.path}:{place.node.place[0]}"
                message = f"the group {name[:40]!r} has another size ({known}) in {where}"
                at.problem("duplicate_group", message, "define it in one of the files")
    return {name: size for name, (size, _) in first.items()}


def _same_project(documents: Sequence[Document]) -> None:
    for document in documents[1:]:
        if document.project != documents[0].project:
            message = f"this file is for project {document.project}, {documents[0].problems.path} for "
            remedy = "files that are applied together name the same project"
            document.root.problem("project", message + documents[0].project, remedy)


def _all_tasks(
    documents: Sequence[Document], groups: dict[str, int], file_exists: FileExists | None
) -> list[TaskSpec]:
    first: dict[str, Cursor] = {}
    tasks: list[TaskSpec] = []
    for document in documents:
        for at, spec in read_tasks(document, groups, file_exists):
            other = first.setdefault(spec.name, at)
            if other is not at:
                where = f"{other.problems.path}:{other.key.place[0]}"
                message = f"the task {spec.name[:40]!r} is already defined in {where}"
                at.problem("duplicate_task", message, "rename or remove one of the two", at_key=True)
            tasks.append(spec)
            if len(tasks) == TASKS_PER_SET + 1:
                message = f"the files have more than {TASKS_PER_SET} tasks together"
                at.problem("too_many", message, "apply them as several projects", at_key=True)
        if not document.problems.any:
            _check_sizes(document, first, tasks)
    return tasks


def _check_sizes(document: Document, places: dict[str, Cursor], tasks: Sequence[TaskSpec]) -> None:
    """Defaults are cheap to write and are stored with each task: bound what they become (I10)."""
    total = 0
    for spec in tasks:
        size = len(definitions.encode(spec))
        total += size
        at = places[spec.name]
        if size > REQUEST_BYTES and at.problems is document.problems:
            message = f"the task is {size // KIB} KiB with its defaults, more than {REQUEST_BYTES // KIB}"
            at.problem("too_large", message, "keep long texts in files", at_key=True)
        if total > FILE_SET_BYTES:
            message = f"with their defaults the tasks take more than {FILE_SET_BYTES // MIB} MiB"
            at.problem("too_large", message, "give fewer or shorter defaults", at_key=True)
            return
