"""What every part of the control plane is given: the ledger and the effects, and the profile's budgets."""

from __future__ import annotations

import msgspec

from qinglong.effects import Clock, Ids, Rng
from qinglong.ledger.port import Ledger
from qinglong.limits import LEASE_MS, RENEW_MS, SESSION_MS


class Budgets(msgspec.Struct, frozen=True):
    """How much one cycle does, and how often; a row of the table in design section 8."""

    cadence_ms: int
    """Longest pause between a moment that a clock step hid and its cycle."""
    recover_page: int
    retry_page: int
    trigger_page: int
    local_runs: int


EDGE = Budgets(cadence_ms=5_000, recover_page=4, retry_page=4, trigger_page=4, local_runs=1)
STANDALONE = Budgets(cadence_ms=1_000, recover_page=16, retry_page=16, trigger_page=16, local_runs=4)


class LeaseTimes(msgspec.Struct, frozen=True):
    """Lives of leases and sessions; tests of long faults use short ones."""

    lease_ms: int = LEASE_MS
    renew_ms: int = RENEW_MS
    session_ms: int = SESSION_MS


class Deps(msgspec.Struct, frozen=True):
    """The ledger, the clock and randomness."""

    ledger: Ledger
    clock: Clock
    rng: Rng
    ids: Ids
    times: LeaseTimes = LeaseTimes()
