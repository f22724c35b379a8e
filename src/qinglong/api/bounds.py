"""Bounds of the HTTP server (I10). Milliseconds, bytes and counts, as in ``limits.py``."""

from __future__ import annotations

from typing import Final

from qinglong.limits import KIB, MIB, SECOND

CONNECTIONS: Final = 256
"""Open connections; the next one is answered 503. Each follower of a Run holds one."""
PIPELINE: Final = 16
"""Requests that a client may send ahead on one connection."""
HEAD_BYTES: Final = 32 * KIB
"""Request line and headers together. Judged after each read, so one read more may pass."""
HEAD_MS: Final = 10 * SECOND
"""From a connection's, or a request's, first byte to the end of its headers."""
BODY_MS: Final = 20 * SECOND
"""For the whole request body."""
KEEP_ALIVE_MS: Final = 15 * SECOND
"""How long an idle connection stays open."""
TAKE_MS: Final = 60 * SECOND
"""How long a client may take to take what is written, while more waits or the connection is closing."""
DISCARD_BYTES: Final = 4 * MIB
"""Of a body that nobody wants, read and thrown away so that the client sees the answer and not a reset."""
DISCARD_MS: Final = 1 * SECOND
STOP_MS: Final = 2 * SECOND
"""An orderly stop waits this long for requests in progress; long polls are ended at once."""
BACKLOG: Final = 128
QUERY_FIELDS: Final = 32
"""Query parameters of one request."""
TOKEN_FILE_BYTES: Final = 4 * KIB
TASK_RUNS: Final = 10
"""Newest Runs that a task's details show."""
TASK_SKIPS: Final = 50
"""Newest skipped occurrences that a task's details show."""
