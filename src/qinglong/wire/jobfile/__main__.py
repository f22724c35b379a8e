"""Read job files in a process of its own: ``python -m qinglong.wire.jobfile ZONE FILE…`` prints a ``Reading``.

A running server reads its files this way: neither the time nor the memory that a large file takes is the server's.
"""

from __future__ import annotations

import sys

import msgspec

from qinglong.wire.jobfile.loading import load_files
from qinglong.wire.problem import Reading


def main(arguments: list[str]) -> None:
    """Write the reading to standard output; it is complete exactly when the exit code is 0."""
    files, problems = load_files(arguments[1:], machine_zone=arguments[0])
    sys.stdout.buffer.write(msgspec.json.encode(Reading(files, tuple(problems))))


if __name__ == "__main__":
    main(sys.argv[1:])
