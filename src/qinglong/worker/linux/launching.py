"""From a task to a keeper that waits for its go byte: account, command, environment, then one fork.

Everything that can be found wrong is found before the fork, in the caller's words (:class:`StartFailed`).
Values go by execve(2) only, never through a script's text.
"""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from pathlib import Path
from typing import Any, Final, NamedTuple

from qinglong.domain.definitions import Command, TaskSpec
from qinglong.worker.host import Launch, StartFailed, not_started
from qinglong.worker.linux import account, environment, inputs
from qinglong.worker.linux.account import Account
from qinglong.worker.linux.environment import STRING_BYTES, Environment, encoded

INTERPRETERS: Final = {
    ".sh": "sh",
    ".bash": "bash",
    ".py": "python3",
    ".js": "node",
    ".mjs": "node",
    ".cjs": "node",
    ".pl": "perl",
    ".rb": "ruby",
    ".php": "php",
    ".lua": "lua",
}
"""Who runs a script that cannot run by itself, by its suffix."""
KEEPER: Final = "".join(
    line
    for line in Path(__file__).with_name("keeper.sh").read_text("utf-8").splitlines(keepends=True)
    if not line.startswith("#")
)
"""Given to ``sh -c``: the file itself need not be readable for the account that runs it."""
SHELL: Final = ("/bin/sh",)
ENTER: Final = "echo 0 >&2"
"""How the keeper enters its control group; a builtin in every shell, so it is the shell that enters, not a child."""
_UMASK: Final = 0o022


class Prepared(NamedTuple):
    """A launch that has been checked. ``digests``: path to hex SHA-256 of every file that was read."""

    argv: list[bytes]
    cwd: bytes
    env: Environment
    account: Account
    digests: dict[str, str]


class Descriptors(NamedTuple):
    """What the keeper is given: its go pipe, the receipt, the entrance to its control group."""

    go: int
    receipt: int
    entrance: int = subprocess.DEVNULL


def prepare(launch: Launch) -> Prepared:
    """Resolve everything; raises :class:`StartFailed`, and leaves nothing behind."""
    spec = launch.spec
    digests: dict[str, str] = {}
    who = account.resolve(spec.user)
    env = environment.build(launch, who, digests)
    if not os.path.isdir(spec.cwd):  # noqa: PTH112
        raise StartFailed(f"cwd: {spec.cwd}: no such folder")
    argv = _argv(spec, os.fsdecode(env["PATH"]), digests)
    raw = [encoded(word, "command") for word in argv]
    for word in raw:
        if b"\0" in word:
            raise StartFailed("command: an argument cannot hold a NUL byte")
        if len(word) >= STRING_BYTES:
            raise StartFailed(
                f"command: an argument is longer than the {STRING_BYTES} bytes that execve allows"
            )
    return Prepared(raw, encoded(spec.cwd, "cwd"), env, who, digests)


def _argv(spec: TaskSpec, path: str, digests: dict[str, str]) -> list[str]:
    command = spec.command
    if command.kind == "text":
        return _shell(command, path)
    if command.kind == "argv":
        if not command.argv:
            raise StartFailed("command: no program is named")
        return [_program(command.argv[0], spec.cwd, path), *command.argv[1:]]
    script = os.path.join(spec.cwd, command.script)  # noqa: PTH118
    digests[script], runs_itself = inputs.inspect_script(script)
    if runs_itself:
        return [script, *command.args]
    return [*_interpreter(script, path), script, *command.args]


def _shell(command: Command, path: str) -> list[str]:
    if command.shell == "bash":
        return [_found("bash", path), "-eo", "pipefail", "-c", command.text]
    return ["/bin/sh", "-e", "-c", command.text]


def _program(name: str, cwd: str, path: str) -> str:
    """The absolute path, so that no shell takes the name for an option or a builtin."""
    if "/" not in name:
        return _found(name, path)
    absolute = os.path.join(cwd, name)  # noqa: PTH118
    if not _runs(absolute):
        raise StartFailed(f"command: {absolute}: no such program, or not executable")
    return absolute


def _interpreter(script: str, path: str) -> list[str]:
    suffix = os.path.splitext(script)[1]  # noqa: PTH122
    if suffix not in INTERPRETERS:
        remedy = "make it executable and begin it with #!"
        raise StartFailed(
            f"script: {script}: no interpreter is known for {suffix or 'no suffix'!r}; {remedy}"
        )
    return [_found(INTERPRETERS[suffix], path)]


def _found(name: str, path: str) -> str:
    for folder in path.split(":"):
        candidate = f"{folder}/{name}"
        if folder.startswith("/") and _runs(candidate):
            return candidate
    raise StartFailed(f"command: {name!r} is not in the job's PATH ({path})")


def _runs(path: str) -> bool:
    try:
        return os.path.isfile(path) and os.access(path, os.X_OK)  # noqa: PTH113
    except ValueError:
        return False


def spawn(prepared: Prepared, folder: str, mark: str, stem: str, descriptors: Descriptors) -> int:
    """Start the keeper in ``folder``, its current one even if the account could not get there; its pid.

    ``stem``: how the names of its log and pid file begin. The caller reaps it, by that pid; no ``Popen`` object
    lives on. Raises :class:`StartFailed`.
    """
    who = prepared.account
    switch: dict[str, Any] = {}
    if who.switch:
        switch = {"user": who.uid, "group": who.gid, "extra_groups": who.groups}
    head = [*SHELL, "-c", KEEPER, "qinglong-keeper", mark, stem]
    try:
        process = subprocess.Popen(
            [*map(os.fsencode, head), prepared.cwd, *prepared.argv],
            stdin=descriptors.go,
            stdout=descriptors.receipt,
            stderr=descriptors.entrance,
            cwd=folder,
            env={name.encode("ascii"): value for name, value in prepared.env.items()},
            start_new_session=True,
            umask=_UMASK,
            **switch,
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise not_started("command: cannot be started", error) from None
    # Or the object would warn when dropped, and later ones would reap the keeper behind our back.
    process.returncode = 0
    return process.pid


def stop_ignoring() -> None:
    """Handle, with a handler that does nothing, the signals that this process was started ignoring (nohup).

    An ignored signal stays ignored over execve(2), and a ``sh`` cannot even trap it; a handled one becomes the
    default again. For this process nothing changes. Only the main thread may do it; elsewhere it is skipped.
    """
    if threading.current_thread() is not threading.main_thread():
        return
    for signum in (
        signal.SIGHUP,
        signal.SIGINT,
        signal.SIGQUIT,
        signal.SIGTERM,
        signal.SIGUSR1,
        signal.SIGUSR2,
    ):
        if signal.getsignal(signum) is signal.SIG_IGN:
            signal.signal(signum, _nothing)


def _nothing(_signum: int, _frame: object) -> None:
    pass
