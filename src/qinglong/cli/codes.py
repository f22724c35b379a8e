"""Exit codes that are no error's own; those of errors stand in ``qinglong.errors``. Reference: ``docs/cli.md``."""

from __future__ import annotations

from typing import Final

USAGE: Final = 2
TIMED_OUT: Final = 124
"""``run --follow``: the run timed out."""
ENDED_BADLY: Final = 125
"""``run --follow``: failed without a code of the job's, lost or cancelled."""
SIGNALLED: Final = 128
"""Plus the signal's number: the job was ended by it."""
INTERRUPTED: Final = 130
"""128 + SIGINT: Ctrl-C ended this command; what it followed goes on."""
PIPE_CLOSED: Final = 141
"""128 + SIGPIPE: whoever read our output has gone, as in ``ql runs | head -1``."""
