"""Servers for the end-to-end tests: made on demand, always cleaned up, their words shown when a test fails."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from support.server import Server


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[..., Server]]:
    """Make servers (not started), each in a folder of its own below the test's."""
    made: list[Server] = []

    def make(text: str = "", *options: str, **more: Any) -> Server:
        server = Server(tmp_path / f"s{len(made)}", text, *options, **more)
        made.append(server)
        return server

    yield make
    for server in made:
        for words in sorted(server.folder.glob("up.*")):
            print(f"--- {words.name}\n{words.read_text('utf-8', 'replace')[-4000:]}")
        server.close()
