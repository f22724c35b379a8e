"""The Linux host: runs commands under keepers, sees their process trees, keeps their output."""

from __future__ import annotations

from qinglong.worker.linux.host import LinuxHost

__all__ = ["LinuxHost"]
