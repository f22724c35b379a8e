"""The local token: made at first start, kept in ``<data>/token``, readable by its owner only.

No default secret exists: without a file a random one is made, and a file with a weak or well-known token is
refused instead of used. This module imports no web framework, so that the command line can read the token.
"""

from __future__ import annotations

import base64
import contextlib
import os
import stat
from pathlib import Path
from typing import Final

from qinglong.api.bounds import TOKEN_FILE_BYTES
from qinglong.effects import Rng
from qinglong.errors import NotFound, Refused, Unavailable

NAME: Final = "token"
_RANDOM_BYTES: Final = 32
LEAST_CHARS: Final = 32
_LEAST_KINDS: Final = 8
"""Fewest different characters; 32 random hex digits have fewer with a probability below 1 in 10^7."""
_KNOWN: Final = frozenset(
    {
        *("123456", "12345678", "123456789", "admin", "administrator", "changeit", "changeme", "change-me"),
        *("default", "example", "guest", "letmein", "passw0rd", "password", "qinglong", "root", "secret"),
        *("test", "token"),
    }
)
_REMEDY: Final = "delete the file and start the server again: it makes a new token"


def load_token(data: Path, rng: Rng) -> str:
    """The data folder's token, made if there is none yet.

    Raises ``Refused`` like :func:`read_token`, ``Unavailable`` when the file cannot be read or written.
    """
    path = data / NAME
    with contextlib.suppress(NotFound):
        return read_token(path)
    token = base64.urlsafe_b64encode(rng.token_bytes(_RANDOM_BYTES)).rstrip(b"=").decode("ascii")
    try:
        _create(path, token, rng.token_bytes(8).hex())
    except FileExistsError:
        return read_token(path)
    except OSError as error:
        raise Unavailable(
            "token_unwritable", f"cannot write the token: {error.strerror}", place=str(path)
        ) from None
    return token


def _create(path: Path, token: str, suffix: str) -> None:
    """Write a whole new file under a name of its own, then link it: it appears complete, and never replaces one."""
    draft = path.with_name(f".{path.name}.{suffix}")
    handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(token.encode("ascii") + b"\n")
            file.flush()
            os.fsync(file.fileno())
        path.hardlink_to(draft)  # fails if the name is taken, unlike a rename
    finally:
        draft.unlink()
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def read_token(path: Path) -> str:
    """The token in a file.

    Raises ``NotFound`` (no file), ``Unavailable`` (cannot be read), ``Refused`` (others may read it, or the
    token is short, monotonous or well known).
    """
    try:
        # Not blocking: opening a pipe that somebody put there must not hang.
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except FileNotFoundError:
        raise NotFound(
            "token_missing",
            "there is no token file",
            place=str(path),
            remedy="start the server once, or name the file with --token-file",
        ) from None
    except OSError as error:
        raise Unavailable(
            "token_unreadable", f"cannot read the token: {error.strerror}", place=str(path)
        ) from None
    try:
        _check_file(os.fstat(handle), path)
        raw = os.read(handle, TOKEN_FILE_BYTES + 1)
    finally:
        os.close(handle)
    return _checked(raw, path)


def _check_file(found: os.stat_result, path: Path) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise Refused("token_no_file", "the token is not a regular file", place=str(path), remedy=_REMEDY)
    if found.st_mode & 0o077:
        raise Refused(
            "token_exposed",
            f"other users may read the token (mode {stat.S_IMODE(found.st_mode):04o})",
            place=str(path),
            remedy=f"chmod 600 {path}; if others were on this machine, delete the file for a new token",
        )


def _checked(raw: bytes, path: Path) -> str:
    token = raw.decode("latin-1").strip("\r\n")
    why = weakness(token)
    if why:
        raise Refused("token_weak", f"the token {why}", place=str(path), remedy=_REMEDY)
    return token


def weakness(token: str) -> str:
    """Why a token must not be used, as the end of a sentence; empty when it is good."""
    if token.lower() in _KNOWN:
        return "is a well-known default"
    if len(token) < LEAST_CHARS:
        return f"has {len(token)} characters, fewer than {LEAST_CHARS}"
    if len(token) > TOKEN_FILE_BYTES:
        return f"has more than {TOKEN_FILE_BYTES} characters"
    if not all("!" <= char <= "~" for char in token):
        return "has characters that are not visible ASCII"
    if _period(token) <= len(token) // 2:
        return "repeats itself"
    if len(set(token)) < _LEAST_KINDS:
        return f"has fewer than {_LEAST_KINDS} different characters"
    return ""


def _period(text: str) -> int:
    """Length of the shortest piece whose repetition (the last one may be cut) is ``text``."""
    return next(size for size in range(1, len(text) + 1) if text[size:] == text[: len(text) - size])
