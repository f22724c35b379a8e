"""Environment files: ``NAME=value`` lines, nothing expanded.

Blank lines, lines that begin with ``#`` and a leading ``export`` are skipped. ``'…'`` is taken as it stands; in
``"…"`` a backslash keeps the next character, but ``\\n``, ``\\t`` and ``\\r`` are newline, tab and return; an
unquoted value reaches to the end of its line, without the blanks around it. The last of a name counts. A bad
line stops the launch, with file and line; the reason never shows what the line says, it may be a secret.
"""

from __future__ import annotations

import re
from typing import Final

from qinglong.worker.host import StartFailed

OWN_PREFIX: Final = "QL_"
_SHELL_OWNED: Final = (
    "IFS PPID OPTIND OPTERR PS1 PS2 PS4 PWD OLDPWD _ LINENO SHLVL RANDOM SRANDOM EPOCHSECONDS EPOCHREALTIME "
    "BASH BASHOPTS BASHPID BASH_ARGV0 BASH_COMMAND BASH_VERSINFO BASH_VERSION SHELLOPTS HISTCMD "
    "COMP_WORDBREAKS"
)
SHELL_OWNED: Final = frozenset(_SHELL_OWNED.split())
"""Variables that some ``sh`` sets itself at start: a value would not arrive unchanged."""

_NAME: Final = re.compile(rb"[A-Za-z_][A-Za-z0-9_]*")
_LINE: Final = re.compile(rb"(?:export[ \t]+)?([^=\s]+)=(.*)", re.DOTALL)
_SINGLE: Final = re.compile(rb"'([^']*)'(.*)", re.DOTALL)
_DOUBLE: Final = re.compile(rb'"((?:[^"\\]|\\.)*)"(.*)', re.DOTALL)
_ESCAPE: Final = re.compile(rb"\\(.)", re.DOTALL)
_ESCAPES: Final = {b"n": b"\n", b"t": b"\t", b"r": b"\r"}


def parse(path: str, raw: bytes) -> dict[str, bytes]:
    """The file's variables; raises :class:`StartFailed`. ``path`` is only for the reason."""
    result: dict[str, bytes] = {}
    for number, line in enumerate(raw.removeprefix(b"\xef\xbb\xbf").split(b"\n"), start=1):
        text = line.strip()
        if text and not text.startswith(b"#"):
            name, value = _entry(text, f"env_file: {path}:{number}")
            result[name] = value
    return result


def _entry(text: bytes, place: str) -> tuple[str, bytes]:
    found = _LINE.fullmatch(text)
    if found is None:
        raise StartFailed(f"{place}: not of the form NAME=value")
    if _NAME.fullmatch(found[1]) is None:
        raise StartFailed(f"{place}: a name may hold only A-Z a-z 0-9 _ and not begin with a digit")
    name = found[1].decode("ascii")
    if name.startswith(OWN_PREFIX):
        raise StartFailed(f"{place}: {name}: names that begin with {OWN_PREFIX} cannot be given")
    if name in SHELL_OWNED:
        raise StartFailed(f"{place}: {name} is set by the shell itself, so the value would not arrive")
    return name, _value(found[2].strip(), place)


def _value(text: bytes, place: str) -> bytes:
    if text[:1] not in (b"'", b'"'):
        return text
    single = text.startswith(b"'")
    found = (_SINGLE if single else _DOUBLE).fullmatch(text)
    if found is None:
        raise StartFailed(f"{place}: the quote is not closed on its line")
    if found[2]:
        raise StartFailed(f"{place}: text after the closing quote")
    return found[1] if single else _ESCAPE.sub(lambda match: _ESCAPES.get(match[1], match[1]), found[1])
