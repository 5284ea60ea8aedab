"""The command `fedsim`: which commands there are, and how every one of them ends."""

import atexit
import functools
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
from fedsim.cli.interrupts import Interrupts
from fedsim.cli.options import debug
from fedsim.cli.suggestions import meant_command
from fedsim.errors import FieldError, Interrupted
from fedsim.installed import added, module_of

# Heading -> command -> the module that has it.
COMMANDS = {
    "Run": {
        "run": "run",
        "compare": "compare",
        "check": "check",
        "data": "data",
    },
    "Write a scenario": {
        "new": "start",
        "list": "catalogue",
        "explain": "catalogue",
    },
    "Use a result": {
        "report": "report",
        "export": "report",
        "verify": "records",
        "diff": "records",
    },
    "Know the machine": {"doctor": "machine"},
}

# A command that another one shows under some of its words, by the name that it had as its own ->
# (the module that has it, the words that ask for it).
MODES = {
    "partition": ("partition", "data partition"),
    "schema": ("start", "new --schema"),
}

# Commands that write what --resume continues.
RESUMABLE = {"run", "compare"}


@functools.cache
def headings() -> dict[str, list[str]]:
    """Return heading -> its commands, those of fields and tools last."""
    listed = {heading: list(names) for heading, names in COMMANDS.items()}
    for _, commands in added("COMMANDS"):
        for heading, names in commands.items():
            listed.setdefault(heading, []).extend(names)
    return listed


@functools.cache
def modules() -> dict[str, str]:
    """Return command -> the module that has it, in the order of use."""
    homes = {
        name: f"fedsim.cli.{module}"
        for names in COMMANDS.values()
        for name, module in names.items()
    }
    for package, commands in added("COMMANDS"):
        for names in commands.values():
            homes |= {name: f"{package}.{module}" for name, module in names.items()}
    ordered = [name for names in headings().values() for name in names]
    return {name: homes[name] for name in ordered} | {
        name: home for name, (home, *_) in modes().items()
    }


@functools.cache
def modes() -> dict[str, tuple[str, ...]]:
    """Return the name that a mode had as a command -> (its module, the words that ask for it ...).

    The first words are those that help and messages show.
    """
    found = {}
    for package, of_package in [("fedsim.cli", MODES), *added("MODES")]:
        for name, (module, *forms) in of_package.items():
            found[name] = (f"{package}.{module}", *forms)
    return found


def mode_asked(arguments: list[str]) -> tuple[str, list[str]] | None:
    """Return a mode's name and its own words, if a command line asks for one.

    >>> mode_asked(["new", "--schema", "--out", "x.json"])
    ('schema', ['--out', 'x.json'])
    """
    for name, (_, *forms) in modes().items():
        for form in forms:
            own = _own_words(form.split(), arguments)
            if own is not None:
                return name, own
    return None


def _own_words(asked: list[str], arguments: list[str]) -> list[str] | None:
    """What follows the words that ask for a mode, which may stand anywhere; None without them."""
    command, *words = asked
    given = arguments[1:]
    if arguments[:1] != [command]:
        return None
    if words == ["FILE.py"]:
        return given if given and given[0].endswith(".py") else None
    joined = "=".join(words)  # --format=zip
    if joined in given:
        given.remove(joined)
        return given
    for at in range(len(given) - len(words) + 1):
        if given[at : at + len(words)] == words:
            return given[:at] + given[at + len(words) :]
    return None


# New objects after which Python looks for unused ones: imports make half a million that stay.
GARBAGE_COLLECTION_THRESHOLD = 50_000


class LazyGroup(click.Group):
    """Commands that are imported when they are asked for, listed in the order of use."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [name for names in headings().values() for name in names]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in modules():
            return None
        command = getattr(import_module(modules()[cmd_name]), f"{cmd_name}_command")
        for package, extended in added("EXTENDS"):
            if cmd_name in extended:
                module_of(package, extended[cmd_name]).extend(command)
        if cmd_name not in modes():
            command.epilog = self._modes_of(cmd_name)
        return command

    def _modes_of(self, cmd_name: str) -> str | None:
        """Lines about the modes of a command, for the end of its help."""
        lines = []
        for name, (_, words, *_) in modes().items():
            if words.split()[0] == cmd_name:
                mode = self.get_command(click.Context(self), name)
                assert mode is not None
                lines.append(f"  fedsim {words} --help  {mode.get_short_help_str(200)}")
        return "\n".join(["\b", "Also:", *lines]) if lines else None

    def resolve_command(self, ctx: click.Context, args: list[str]):
        name = args[0]
        if name in modes():
            words = modes()[name][1]
            click.echo(f"fedsim: 'fedsim {name}' is now 'fedsim {words}'", err=True)
            return words, self.get_command(ctx, name), args[1:]
        mode = mode_asked(args)
        if mode is not None:
            name, own = mode
            return modes()[name][1], self.get_command(ctx, name), own
        if not ctx.resilient_parsing and name not in modules() and not name.startswith("-"):
            meant = meant_command(args, modules())
            raise click.UsageError(f"no such command '{name}'; {meant}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for heading, names in headings().items():
            rows: list[tuple[str, str]] = []
            for name in names:
                command = self.get_command(ctx, name)
                assert command is not None
                rows.append((name, command.get_short_help_str(200)))
            with formatter.section(heading):
                formatter.write_dl(rows)


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
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

    Shell completion: eval "$(_FEDSIM_COMPLETE=bash_source fedsim)", or zsh_source, or fish_source.
    """


def command() -> None:
    """Run the command line as a process of its own: `main`, then the end at once.

    Functions registered with `atexit` are called. What Python and XLA would tear down after them,
    in about a second, ends with the process.
    """
    gc.set_threshold(GARBAGE_COLLECTION_THRESHOLD)
    code: Any = 0
    try:
        main()
    except SystemExit as end:
        code = end.code or 0  # always a number: ours are
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    streams.flush()
    os._exit(code)


def main(arguments: list[str] | None = None) -> Any:
    """Run a command line; every error is one line per problem and an exit code.

    Tracebacks are shown only with `--debug`.

    Args:
      arguments: the words after `fedsim`; by default those of this process.

    Raises:
      SystemExit: with the exit code.
    """
    if arguments is None:
        arguments = sys.argv[1:]
    if "_FEDSIM_COMPLETE" in os.environ:
        import fedsim.cli.completion  # noqa: F401 (importing it registers it)
    if arguments[:1] == ["help"]:
        arguments = [*arguments[1:2], "--help"]

    streams.prepare()
    _replace_unknown_letters()
    warnings.showwarning = _show_warning
    try:
        farewell = _farewell(arguments)
    except FieldError as error:
        sys.exit(print_error(error, ""))
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


def _replace_unknown_letters() -> None:
    """Show a question mark for a letter that the locale cannot show."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


def _show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    click.echo(f"fedsim: warning: {message}", err=True)


def _farewell(arguments: list[str]) -> str:
    """Return what to say of a command that is interrupted."""
    resumable = RESUMABLE.union(*(names for _, names in added("RESUMABLE")))
    mode = mode_asked(arguments)
    if not resumable & {*arguments[:2], mode[0] if mode else ""}:
        return "nothing was written"
    words = [word for word in arguments if word not in ("--force", "--resume")]
    return f"resume with: {shlex.join(['fedsim', *words, '--resume'])}"
