"""Following a Run: its state by long polls, its output by offset, until it is final.

One thread, no waiting of its own: while a command may be writing, a short long poll is the pause between two looks
at its output; at any other time the server says when something happens.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from qinglong.cli.client import Client, Query
from qinglong.cli.codes import ENDED_BADLY, SIGNALLED, TIMED_OUT
from qinglong.cli.output import Output
from qinglong.cli.session import API, part
from qinglong.domain.states import ATTEMPT_FINAL, RUN_FINAL
from qinglong.errors import NotFound
from qinglong.limits import LOG_READ_BYTES
from qinglong.wire.api import AttemptInfo, RunDetail, RunInfo

WRITING_MS: Final = 500
"""Pause between two looks at the output of a running command."""
WAITING_MS: Final = 20_000
"""One long poll while nothing can be written."""


class Tail:
    """Reads an Attempt's output forward, and goes on with the next one."""

    def __init__(self, client: Client, run_id: str, output: Output, number: int, step: str = "") -> None:
        self._client = client
        self._path = f"{API}/runs/{part(run_id)}/log"
        self._output = output
        self._number = number
        self._step = step
        self._offset = 0

    def read(self, newest: int) -> None:
        """Everything that is there now, up to the end of attempt ``newest``."""
        self._drain()
        while self._number < newest:
            self._number, self._offset = self._number + 1, 0
            self._output.note(f"attempt {self._number}")
            self._drain()

    def _drain(self) -> None:
        end = False
        while not end:
            end = self._piece()

    def _piece(self) -> bool:
        """One read; whether nothing lies behind it now."""
        query: Query = {
            "attempt": self._number,
            "step": self._step,
            "offset": self._offset,
            "limit": LOG_READ_BYTES,
        }
        try:
            reply = self._client.get(self._path, query, patient=True)
        except NotFound:
            # It has not begun, so it has written nothing.
            return True
        start, gap_end = _range(reply.headers.get("ql-log-gap", ""))
        if gap_end > max(start, self._offset):
            self._output.note(f"{gap_end - max(start, self._offset):,} bytes dropped")
        self._output.data(reply.body)
        after = _number(reply.headers.get("ql-log-next", ""), self._offset + len(reply.body))
        stuck = after <= self._offset
        self._offset = max(after, self._offset)
        return stuck or reply.headers.get("ql-log-end", "") == "true"


def follow(
    client: Client,
    detail: RunDetail,
    told: Callable[[RunInfo], None],
    tail: Tail | None,
    *,
    only: int | None = None,
) -> RunDetail:
    """Until the Run is final: every state to ``told``, all output through ``tail``; the final details.

    ``only`` stays with one Attempt and ends with it. Outlasts a restart of the server; raises ``Unavailable`` when
    it stays away.
    """
    path = f"{API}/runs/{part(detail.run.run_id)}/changes"
    while True:
        told(detail.run)
        if tail is not None:
            tail.read(only or detail.run.attempt)
        if detail.run.state in RUN_FINAL or (only is not None and _ended(detail, only)):
            return detail
        wait_ms = WRITING_MS if tail is not None and _writing(detail) else WAITING_MS
        query: Query = {"after": detail.run.version, "wait_ms": wait_ms}
        detail = client.get(path, query, patient=True, wait_ms=wait_ms).decode(RunDetail)


def newest(detail: RunDetail) -> AttemptInfo | None:
    """The newest Attempt."""
    return max(detail.attempts, key=lambda attempt: attempt.number, default=None)


def exit_code(detail: RunDetail) -> int:
    """What ``run --follow`` ends with: the job's own code, or what stands for how it ended."""
    run, attempt = detail.run, newest(detail)
    if run.state == "succeeded":
        return 0
    if run.state == "timed_out":
        return TIMED_OUT
    if run.state != "failed" or attempt is None or attempt.status != "failed":
        # The Run's own exit code may be that of an older Attempt, when the newest one was lost.
        return ENDED_BADLY
    if attempt.signal is not None:
        return min(SIGNALLED + attempt.signal, 255)
    # A job that a worker stopped may end with 0 and has failed all the same.
    return attempt.exit_code or ENDED_BADLY


def _writing(detail: RunDetail) -> bool:
    attempt = newest(detail)
    return attempt is not None and attempt.status in {"starting", "running"}


def _ended(detail: RunDetail, number: int) -> bool:
    return any(each.number == number and each.status in ATTEMPT_FINAL for each in detail.attempts)


def _range(text: str) -> tuple[int, int]:
    start, _, end = text.partition("-")
    return _number(start, 0), _number(end, 0)


def _number(text: str, otherwise: int) -> int:
    return int(text) if text.isascii() and text.isdigit() else otherwise


__all__ = ["Tail", "exit_code", "follow", "newest"]
