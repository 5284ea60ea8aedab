"""The command `fedsim`: which commands there are, and how every one of them ends."""

import atexit
import gc
import io
import os
import shlex
import sys
import threading
import warnings
from importlib import import_module
from typing import Any

import click

from fedsim._version import __version__
from fedsim.cli import streams
from fedsim.cli.errors import leave, print_error, print_usage
from fedsim.cli.guesses import meant_command
from fedsim.cli.interrupts import Interrupts
from fedsim.cli.options import debug
from fedsim.errors import Interrupted

COMMANDS = {  # heading -> command -> the module that has it
    "Run": {
        "run": "run",
        "compare": "compare",
        "check": "check",
        "partition": "partition",
        "data": "data",
    },
    "Write a scenario": {
        "new": "start",
        "list": "catalogue",
        "explain": "catalogue",
        "schema": "start",
    },
    "Use a result": {
        "report": "report",
        "export": "report",
        "verify": "records",
        "diff": "records",
    },
    "Know the machine": {"doctor": "machine", "bench": "machine"},
}
MODULES = {name: module for commands in COMMANDS.values() for name, module in commands.items()}
UNTIL_COLLECTED = 50_000  # objects made before Python looks for unused ones: imports make half a million, and nearly all stay


class Lazy(click.Group):
    """Commands are imported when they are asked for, and shown in the order in which they are used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(MODULES)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in MODULES:
            return None
        return getattr(import_module(f"fedsim.cli.{MODULES[cmd_name]}"), f"{cmd_name}_command")

    def resolve_command(self, ctx: click.Context, args: list[str]):
        name = args[0]
        if not ctx.resilient_parsing and name not in MODULES and not name.startswith("-"):
            raise click.UsageError(f"no such command '{name}'; {meant_command(args, MODULES)}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for heading, names in COMMANDS.items():
            with formatter.section(heading):
                commands = [(name, self.get_command(ctx, name)) for name in names]
                formatter.write_dl(
                    [
                        (name, command.get_short_help_str(200))
                        for name, command in commands
                        if command
                    ]
                )


@click.group(cls=Lazy, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, "-V", "--version", prog_name="fedsim")
@debug
def cli() -> None:
    """Simulate federated learning: one scenario file, one command, an answer you can defend.

    \b
    Examples:
      fedsim new mine                       a commented scenario to start from
      fedsim check mine.yaml                what a run will take
      fedsim run mine.yaml --seeds 5        run it over five seeds
      fedsim explain trimmed_mean           what a link does

    Completion in the shell: eval "$(_FEDSIM_COMPLETE=bash_source fedsim)", or zsh_source, or fish_source.
    """


def command() -> None:
    """The command line as a process of its own: `main`, and then the end at once.

    What was to happen at exit happens. What Python and XLA would take apart after it, a second's work, goes with the process.
    """
    gc.set_threshold(UNTIL_COLLECTED)
    code: Any = 0
    try:
        main()
    except SystemExit as end:
        code = end.code or 0  # a number, wherever we leave
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    streams.flush()
    os._exit(code)


def main(arguments: list[str] | None = None) -> Any:
    """Every command: every error is one line per problem and an exit code; tracebacks only with --debug."""
    arguments = sys.argv[1:] if arguments is None else arguments
    if arguments[:1] == ["help"]:
        arguments = [*arguments[1:2], "--help"]
    streams.settle()
    warnings.showwarning = lambda message, *_, **__: click.echo(
        f"fedsim: warning: {message}", err=True
    )
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(
                errors="replace"
            )  # a locale that cannot show a letter shows a question mark
    again = shlex.join(
        ["fedsim", *(a for a in arguments if a not in ("--force", "--resume")), "--resume"]
    )
    farewell = (
        f"go on with: {again}" if {"run", "compare"} & set(arguments[:2]) else "nothing was written"
    )
    with Interrupts(farewell).watched() as interrupts:
        try:
            cli.main(arguments, prog_name="fedsim", standalone_mode=False, obj=interrupts)
            sys.stdout.flush()
        except click.exceptions.Exit as done:
            sys.exit(done.exit_code)
        except click.ClickException as error:
            sys.exit(print_usage(error, arguments))
        except (click.Abort, KeyboardInterrupt):
            click.echo("fedsim: interrupted", err=True)
            sys.exit(interrupts.code)
        except Exception as error:
            if "--debug" in arguments:
                raise
            leave(print_error(error, farewell))
        except Interrupted as error:
            click.echo(f"fedsim: interrupted {error}; {farewell}", err=True)
            leave(interrupts.code)
        finally:
            streams.flush()
