"""Runs ``ql``: in this process, which is quick, or as a process of its own where that is the point."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from contextlib import contextmanager
from dataclasses import dataclass

from qinglong.cli.main import main

TIMEOUT_S = 20
_MAIN = (
    "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler);"
    " from qinglong.cli.main import main; sys.exit(main())"
)
"""A test run may have been started with SIGINT ignored, which children inherit."""


@contextmanager
def zone(monkeypatch, name):
    """This process's own zone, as a person's machine has it."""
    monkeypatch.setenv("TZ", name)
    time.tzset()
    try:
        yield
    finally:
        monkeypatch.undo()
        time.tzset()


@dataclass
class Ended:
    code: int
    raw: bytes
    err: str

    @property
    def out(self):
        return self.raw.decode()


class Cli:
    """``ql`` with a data folder."""

    def __init__(self, capture, data):
        self._capture = capture
        self.data = data
        self.python = sys.executable

    def __call__(self, *arguments):
        code = main([*map(str, arguments)])
        out, err = self._capture.readouterr()
        return Ended(code, out, err.decode())

    def start(self, *arguments, **environment):
        env = {**os.environ, "QL_DATA": str(self.data), "COLUMNS": "100", **environment}
        return subprocess.Popen(
            [sys.executable, "-c", _MAIN, *map(str, arguments)],
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def process(self, *arguments, **environment):
        with self.start(*arguments, **environment) as process:
            out, err = process.communicate(timeout=TIMEOUT_S)
        return Ended(process.returncode, out, err.decode())
