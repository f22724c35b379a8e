"""After a gap (start, reconnect, failover, suspension) live workers renew before claims are judged (section 8)."""

from __future__ import annotations

from qinglong.effects import Clock


class Gap:
    """For one lease after it was noticed no ``claimed`` Attempt is judged; evidence is never held."""

    def __init__(self, clock: Clock, lease_ms: int) -> None:
        self._clock = clock
        self._lease_ms = lease_ms
        self._until_ms = 0

    def noticed(self) -> None:
        """This process may have been deaf until now."""
        self._until_ms = self._clock.boot_ms() + self._lease_ms

    @property
    def lasts(self) -> bool:
        """Whether workers still get the time to renew first."""
        return self._clock.boot_ms() < self._until_ms
