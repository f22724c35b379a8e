"""``ql up``: the profiles ``edge`` and ``standalone`` as a process, from first line to last."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from pathlib import Path

import apsw
import msgspec

from qinglong.api.app import build
from qinglong.api.server import Server, bind
from qinglong.api.token import load_token
from qinglong.domain.definitions import FileSet
from qinglong.domain.publishing import Published
from qinglong.effects import SystemClock, SystemRng
from qinglong.errors import Conflict, Invalid, QingLongError
from qinglong.observability.logs import configure
from qinglong.profiles.console import Console
from qinglong.profiles.files import JobFiles, tell
from qinglong.profiles.node import PROFILES, Node
from qinglong.profiles.options import UpOptions
from qinglong.profiles.signals import Signals
from qinglong.profiles.stopping import stop
from qinglong.profiles.terminal import Terminal

log = logging.getLogger("qinglong")


def main(options: UpOptions) -> int:
    """Run until a signal; the exit code. Raises the errors of ``qinglong.errors`` for the command line to show."""
    configure(json=options.json_logs, level=logging.INFO, stream=sys.stderr)
    import uvloop

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(_Up(options).run())


class _Up:
    """One life of ``ql up``."""

    def __init__(self, options: UpOptions) -> None:
        self._options = options
        self._paused = ""
        self._node = Node(options.data, PROFILES[options.profile], options.slots)
        self._console = Console(sys.stdout)

    def _say(self, text: str) -> None:
        self._console.write(f"• {text}\n")

    async def run(self) -> int:
        signals = Signals()
        signals.install()
        node = self._node
        node.open()
        try:
            files = JobFiles(self._options.files, node.zone)
            first = await self._load(files)
            if first is None:
                return Invalid.exit_code
            return await self._serve(files, first, signals)
        finally:
            await node.close()

    async def _load(self, files: JobFiles) -> FileSet | None:
        try:
            return await files.load()
        except Invalid:
            tell(files.problems, lambda line: print(line, file=sys.stderr))
            return None

    async def _serve(self, files: JobFiles, first: FileSet, signals: Signals) -> int:
        options, node = self._options, self._node
        listener = bind(options.host, options.port)
        token = load_token(options.data, SystemRng())
        configure(json=options.json_logs, level=logging.INFO, stream=sys.stderr, conceal=(token,))
        terminal = Terminal(
            options.data / "attempts", SystemClock(), self._console.write, color=options.color
        )
        node.agent.observer = terminal
        resumed, published = await node.start(first)
        api = build(
            node.control,
            token,
            profile=options.profile,
            host=options.host,
            sqlite=apsw.sqlite_lib_version(),
            schema=node.schema,
            data=str(options.data),
        )
        server = Server(api, listener)
        await server.start()
        _announce(options.data / "api.json", server.url)
        self._greet(server.url, first, published, resumed)
        tasks = [
            asyncio.create_task(terminal.run()),
            asyncio.create_task(node.watch(lambda: self._edited(files))),
        ]
        try:
            await _until_stopped(signals, tasks)
            await stop(node, signals, options.drain_ms, self._say)
        finally:
            for task in tasks:
                task.cancel()
            await server.stop()
            (options.data / "api.json").unlink(missing_ok=True)
        return 0

    def _greet(self, url: str, files: FileSet, published: Published | None, resumed: int) -> None:
        self._say(f"ql is up at {url}, data in {self._options.data}, {len(files.tasks)} task(s)")
        if resumed:
            self._say(f"taken over: {resumed} job(s) from before")
        if published is not None:
            self._changes(published)
        self._say(f"from another terminal: ql --data {self._options.data} runs")
        self._say("edits to the job file are followed; Ctrl-C stops")

    def _changes(self, done: Published) -> None:
        for word, names in (("new", done.added), ("changed", done.changed), ("removed", done.removed)):
            if names:
                shown = ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")
                self._say(f"{word}: {shown}")

    def _tell_pause(self) -> None:
        """Say when new Runs pause, why, and when they go on (I9)."""
        reason = self._node.control.door.disk_reason
        if reason and not self._paused:
            self._say(f"new runs pause: {reason}")
        if self._paused and not reason:
            self._say("new runs go on")
        self._paused = reason

    async def _edited(self, files: JobFiles) -> None:
        """Apply an edit; a broken one keeps the last good version and says what is wrong with it."""
        if (failure := self._node.failed()) is not None:
            raise failure
        self._tell_pause()
        if not files.edited():
            return
        try:
            self._changes(await self._node.publish(await files.load()))
        except Invalid:
            self._say("the edited job file is broken; the last good version stays in force:")
            tell(files.problems, lambda line: self._console.write(f"    {line}\n"))
        except Conflict as error:
            self._say(f"the edit was not applied: {error}")
        except QingLongError as error:
            log.warning("the edit is not applied yet: %s", error)
            files.again()


async def _until_stopped(signals: Signals, tasks: list[asyncio.Task[None]]) -> None:
    """Until a signal. A fault of ours ends the process, loudly, instead of a server that does half of its work;
    what runs stays with its keepers.
    """
    stopped = asyncio.create_task(_set(signals.stop))
    await asyncio.wait([stopped, *tasks], return_when=asyncio.FIRST_COMPLETED)
    stopped.cancel()
    for task in tasks:
        if task.done():
            task.result()


async def _set(event: asyncio.Event) -> None:
    await event.wait()


def _announce(path: Path, url: str) -> None:
    """Where the command line finds this server; written whole or not at all."""
    body = msgspec.json.encode({"url": url, "pid": os.getpid()})
    temporary = path.with_suffix(".new")
    temporary.write_bytes(body)
    temporary.replace(path)
