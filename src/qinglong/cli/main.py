"""The command ``ql``: finds a subcommand, runs it, and ends with its exit code.

Every subcommand lives in a module of its own that is imported when it is asked for, so that ``ql --help`` costs
little more than the interpreter's start. Exit codes: ``docs/cli.md``.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Final

import click

from qinglong.cli.codes import INTERRUPTED
from qinglong.cli.settings import Settings, global_options
from qinglong.errors import QingLongError

COMMANDS: Final[dict[str, tuple[str, str]]] = {
    "up": ("up", "Start the server with job files."),
    "check": ("check", "Check job files without a server."),
    "run": ("run", "Start a task by hand."),
    "cancel": ("cancel", "Ask runs to end."),
    "runs": ("runs", "List runs, newest first."),
    "show": ("show", "Show one run."),
    "explain": ("explain", "Tell a run's story and what it waits for."),
    "logs": ("logs", "Print a run's output."),
    "tasks": ("tasks", "List tasks and when they run next."),
    "cron": ("cron", "What a schedule means and when it fires."),
    "version": ("version", "Print the versions of client and server."),
}
"""Name to (module in this package, one line of help); the module has an attribute ``command``."""


class Root(click.Group):
    """A group that knows its commands' one-line help without importing them."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """In the order of the table: the common ones first."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the command; ``None`` if there is none of that name."""
        if cmd_name not in COMMANDS:
            return None
        found = import_module(f"qinglong.cli.{COMMANDS[cmd_name][0]}").command
        assert isinstance(found, click.Command)
        return found

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The table of commands in the help."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in COMMANDS.items()])


root: Final = Root(
    name="ql",
    params=global_options(hidden=False),
    help=(
        "A job scheduler for work that must not run twice.\n\n"
        "Start with `ql up FILE`; ask with `ql runs`; understand with `ql explain RUN`."
    ),
    epilog="A RUN is an id, its beginning or end, or a task's name (its newest run).",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command line; the exit code. ``arguments`` default to the process's own. Never raises."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    settings = Settings()
    try:
        code = root.main(given, prog_name="ql", standalone_mode=False, obj=settings)
    except KeyboardInterrupt:
        return INTERRUPTED
    except click.Abort:
        return INTERRUPTED
    except (QingLongError, click.ClickException, Exception) as error:
        from qinglong.cli.failures import report

        return report(error, settings, given)
    return code if isinstance(code, int) else 0


__all__ = ["COMMANDS", "main", "root"]
