"""The environment of a command: clean, documented, the same each time (``docs/execution.md``).

In this order, later ones win: the base (account, locale, PATH), environment files, ``env``, secrets, ours.
Nothing else of the worker's environment gets through. Values are bytes and go by execve(2), which allows
128 KiB for one ``NAME=value``. A reason never shows a value.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import os
import sys
from collections.abc import Mapping
from typing import Final

from qinglong.limits import JOB_FILE_BYTES, VALUE_BYTES
from qinglong.worker.host import AttemptKey, Launch, StartFailed
from qinglong.worker.linux import envfile
from qinglong.worker.linux.account import Account
from qinglong.worker.linux.inputs import read_file

DEFAULT_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
STRING_BYTES: Final = 128 * 1024
"""execve(2): MAX_ARG_STRLEN, the closing NUL included."""

_PASSED: Final = ("LANG", "LC_ALL", "TZ")

Environment = dict[str, bytes]


def build(launch: Launch, account: Account, digests: dict[str, str]) -> Environment:
    """The whole environment; puts the digest of each environment file into ``digests``.

    Raises :class:`StartFailed` naming the file and line, the variable, or the secret.
    """
    spec = launch.spec
    result = base(account, os.environ)
    for path in spec.env_file:
        raw = read_file(path, JOB_FILE_BYTES, "env_file")
        digests[path] = hashlib.sha256(raw).hexdigest()
        result |= envfile.parse(path, raw)
    result |= {name: encoded(value, f"env {name}") for name, value in spec.env.items()}
    result |= {name: _secret(name, secret.file) for name, secret in spec.secrets.items()}
    result = {name: value for name, value in result.items() if not name.startswith(envfile.OWN_PREFIX)}
    result |= own(launch)
    for name, value in result.items():
        _check(name, value)
    return result


def base(account: Account, worker: Mapping[str, str]) -> Environment:
    """PATH, the account's variables and the locale."""
    names = {
        "PATH": _path(worker.get("PATH", "")),
        "HOME": account.home,
        "USER": account.name,
        "LOGNAME": account.name,
        "SHELL": account.shell,
    }
    names |= {name: worker[name] for name in _PASSED if worker.get(name)}
    if not account.switch and worker.get("TMPDIR"):
        names["TMPDIR"] = worker["TMPDIR"]
    return {name: os.fsencode(value) for name, value in names.items()}


def _path(worker: str) -> str:
    """The worker's PATH without the folder of its own virtual environment."""
    mine = f"{sys.prefix}/bin" if sys.prefix != sys.base_prefix else None
    kept = [folder for folder in worker.split(":") if folder and folder != mine]
    return ":".join(kept) or DEFAULT_PATH


def own(launch: Launch) -> Environment:
    """The variables of ours that nothing can override."""
    entries = dict(mark.split(b"=", 1) for mark in marks(launch.key))
    result = {name.decode("ascii"): value for name, value in entries.items()}
    result["QL_FENCE"] = b"%d" % launch.fence
    if launch.scheduled_ms is not None:
        result["QL_SCHEDULED_AT"] = _iso(launch.scheduled_ms)
    return result


def _iso(moment_ms: int) -> bytes:
    """ISO 8601 in UTC with a ``Z``; milliseconds only where there are any."""
    moment = dt.datetime.fromtimestamp(moment_ms // 1000, dt.UTC).replace(microsecond=moment_ms % 1000 * 1000)
    text = moment.isoformat(timespec="milliseconds" if moment_ms % 1000 else "seconds")
    return text.replace("+00:00", "Z").encode("ascii")


def marks(key: AttemptKey) -> tuple[bytes, ...]:
    """The entries by which a process is known to belong to the Attempt."""
    entries = [f"QL_RUN_ID={key.run_id}", f"QL_ATTEMPT={key.number}"]
    if key.step:
        entries.append(f"QL_STEP={key.step}")
    return tuple(entry.encode() for entry in entries)


def encoded(value: str, what: str) -> bytes:
    """UTF-8, whatever the locale; raises :class:`StartFailed`."""
    try:
        return value.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        raise StartFailed(f"{what}: not valid Unicode") from None


def _check(name: str, value: bytes) -> None:
    if b"\0" in value:
        raise StartFailed(f"variable {name}: a value cannot hold a NUL byte")
    if len(name) + 1 + len(value) >= STRING_BYTES:
        raise StartFailed(f"variable {name}: longer than the {STRING_BYTES} bytes that execve allows")


def _secret(name: str, path: str) -> bytes:
    return read_file(path, VALUE_BYTES + 1, f"secret {name}").removesuffix(b"\n")
