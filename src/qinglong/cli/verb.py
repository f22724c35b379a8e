"""What every subcommand has in common: the global options, its settings, and a quiet end of a closed pipe."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any, Final

import click

from qinglong.cli.codes import PIPE_CLOSED
from qinglong.cli.settings import Settings, global_options

_EPILOG: Final = "Global options (see `ql --help`) may stand here too."


class Verb(click.Command):
    """A subcommand; its callback gets the :class:`Settings` first and returns the exit code."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        kwargs.setdefault("epilog", _EPILOG)
        kwargs.setdefault("context_settings", {"max_content_width": 100})
        super().__init__(*args, **kwargs)
        self.params.extend(global_options(hidden=True))

    def invoke(self, ctx: click.Context) -> Any:
        """Run the callback; output is flushed here, so that a closed pipe is noticed in time."""
        try:
            code = super().invoke(ctx)
            sys.stdout.flush()
        except BrokenPipeError:
            # The interpreter flushes once more at its end, and would complain.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return PIPE_CLOSED
        return code


def verb(name: str, summary: str, details: str = "") -> Callable[[Callable[..., int]], Verb]:
    """Make the decorated function, after its options, the subcommand ``name``."""

    def wrap(function: Callable[..., int]) -> Verb:
        help_text = f"{summary}\n\n{details}" if details else summary
        called = click.make_pass_decorator(Settings, ensure=True)(function)
        made = click.command(name, cls=Verb, help=help_text, short_help=summary)(called)
        assert isinstance(made, Verb)
        return made

    return wrap


__all__ = ["Verb", "verb"]
