"""One suite for every ledger: a backend joins by a branch in ``store``, and by nothing else."""

from __future__ import annotations

import pytest

from support.clock import FakeClock
from support.store import Store

BACKENDS = ("sqlite",)


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture(params=BACKENDS)
def store(request, tmp_path, clock):
    assert request.param == "sqlite"
    opened = Store(tmp_path, clock, durable=False)
    yield opened
    opened.close()
