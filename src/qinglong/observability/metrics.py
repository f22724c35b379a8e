"""Prometheus' text format for ``/metrics``, from plain figures.

``prometheus_client`` is imported by the first scrape and not before: it costs 2 MiB beside a running API
(5 MiB alone), and an idle box that nobody scrapes must not pay for it. A renderer of our own would save those 2 MiB
but also own the format's escaping and its changes; with them the process stays within its budget of 48 MiB.

Names are ``qinglong_<thing>_<unit>`` in base units (seconds, bytes). Labels are states only: never a Run, a task
or a worker.
"""

from __future__ import annotations

import platform
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from qinglong.domain import states

if TYPE_CHECKING:
    from prometheus_client.core import Metric

MEDIA: Final = "text/plain; version=0.0.4; charset=utf-8"
_OPEN: Final = tuple(state for state in states.RUN if state not in states.RUN_FINAL)
_GAUGES: Final = frozenset({"open", "running", "waiting", "pending", "slots", "connections", "sessions"})
"""Last parts of dotted names that say how much there is now; every other figure counts up."""
_SIZES: Final = {"_ms": ("_seconds", 1000.0), "_bytes": ("_bytes", 1.0)}
"""Endings of gauges with a unit, what they become, and by how much the value is divided."""
_OTHER: Final = re.compile(r"[^a-z0-9]+")
_RUNS: Final = "runs."
_OLDEST: Final = "oldest_ms."
_UNREACHABLE: Final = "unreachable"
_UNREACHABLE_SINCE: Final = "oldest_unreachable_ms"


def render(figures: dict[str, float], counts: dict[str, float], now_ms: int, version: str) -> bytes:
    """The text of one scrape.

    ``figures``: this process' numbers by dotted name (``Control.figures``). ``counts``: the ledger's gauges
    (``Queries.counts``): ``runs.<state>``, ``oldest_ms.<state>`` (a moment, shown as an age), ``unreachable``,
    ``oldest_unreachable_ms``.
    """
    from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest

    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Figures(figures, counts, now_ms, version))
    ProcessCollector(registry=registry)
    return bytes(generate_latest(registry))


class _Figures:
    """The ``Collector`` that the library asks."""

    def __init__(
        self, figures: dict[str, float], counts: dict[str, float], now_ms: int, version: str
    ) -> None:
        self._figures = figures
        self._counts = counts
        self._now_ms = now_ms
        self._version = version

    def collect(self) -> Iterator[Metric]:
        from prometheus_client.core import InfoMetricFamily

        about = {"version": self._version, "python": platform.python_version()}
        yield InfoMetricFamily("qinglong_build", "What runs here.", about)
        yield from self._ledger()
        for name in sorted(self._figures):
            yield _figure(name, self._figures[name])

    def _ledger(self) -> Iterator[Metric]:
        from prometheus_client.core import GaugeMetricFamily

        counts = self._counts
        runs = GaugeMetricFamily("qinglong_runs", "Runs that are not final, by state.", labels=["state"])
        oldest = GaugeMetricFamily(
            "qinglong_oldest_run_age_seconds",
            "Since the oldest Run in a state was created.",
            labels=["state"],
        )
        for state in _OPEN:
            # Zeroes too: an alert on a series that vanishes never ends.
            runs.add_metric([state], counts.get(_RUNS + state, 0))
            oldest.add_metric([state], self._age_s(_OLDEST + state))
        yield runs
        yield oldest
        yield GaugeMetricFamily(
            "qinglong_unreachable_runs",
            "Runs whose worker is silent and whose end is not known.",
            counts.get(_UNREACHABLE, 0),
        )
        yield GaugeMetricFamily(
            "qinglong_oldest_unreachable_age_seconds",
            "Since the longest unreachable Run became so.",
            self._age_s(_UNREACHABLE_SINCE),
        )
        for name in sorted(counts):
            if name not in {_UNREACHABLE, _UNREACHABLE_SINCE} and not name.startswith((_RUNS, _OLDEST)):
                yield _gauge(name, counts[name])

    def _age_s(self, name: str) -> float:
        since_ms = self._counts.get(name)
        return 0.0 if since_ms is None else max(self._now_ms - since_ms, 0) / 1000


def _figure(name: str, value: float) -> Metric:
    from prometheus_client.core import CounterMetricFamily

    if name.endswith(tuple(_SIZES)) or name.rpartition(".")[2] in _GAUGES:
        return _gauge(name, value)
    return CounterMetricFamily(_full(name), f"{name}, since this process started.", value)


def _gauge(name: str, value: float) -> Metric:
    from prometheus_client.core import GaugeMetricFamily

    for ending, (unit, divisor) in _SIZES.items():
        if name.endswith(ending):
            return GaugeMetricFamily(
                _full(name.removesuffix(ending)) + unit, f"{name}, now.", value / divisor
            )
    return GaugeMetricFamily(_full(name), f"{name}, now.", value)


def _full(name: str) -> str:
    return "qinglong_" + _OTHER.sub("_", name.lower()).strip("_")
