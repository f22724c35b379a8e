"""The signals that ask a process of ours to stop."""

from __future__ import annotations

import asyncio
import signal


class Signals:
    """SIGTERM, SIGINT, SIGHUP ask for an orderly stop; a second one sets ``kill``."""

    def __init__(self) -> None:
        self.stop = asyncio.Event()
        self.kill = asyncio.Event()

    def install(self) -> None:
        """Take the signals over on the running loop; SIGHUP not where it was ignored from the start (nohup)."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            if number == signal.SIGHUP and signal.getsignal(number) == signal.SIG_IGN:
                continue
            loop.add_signal_handler(number, self.received)

    def received(self) -> None:
        """One more signal."""
        if self.stop.is_set():
            self.kill.set()
        self.stop.set()


__all__ = ["Signals"]
