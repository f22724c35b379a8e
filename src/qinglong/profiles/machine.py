"""Facts about the machine that a first start stores."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from qinglong.domain.zone import load_zone
from qinglong.errors import Invalid


def machine_zone() -> str:
    """The machine's IANA zone: $TZ, else what /etc/localtime links to, else /etc/timezone, else UTC."""
    candidates = [os.environ.get("TZ", "").removeprefix(":")]
    with contextlib.suppress(OSError):
        candidates.append(str(Path("/etc/localtime").resolve()).partition("zoneinfo/")[2])
        candidates.append(Path("/etc/timezone").read_text(encoding="utf-8").strip())
    return next((zone for zone in candidates if zone and _known(zone)), "UTC")


def _known(zone: str) -> bool:
    with contextlib.suppress(Invalid):
        load_zone(zone)
        return True
    return False
