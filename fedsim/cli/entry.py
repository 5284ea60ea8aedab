"""The command `fedsim`: which commands there are, and how every one of them ends."""

import atexit
import functools
import gc
import io
import os
import pkgutil
import shlex
import sys
import textwrap
import threading
import warnings
from typing import Any

import click

from fedsim._version import __version__
from fedsim.cli import streams
from fedsim.cli.errors import leave, print_error, print_usage
from fedsim.cli.interrupts import Interrupts
from fedsim.cli.options import debug
from fedsim.cli.suggestions import OWN_WORDS, meant_command
from fedsim.errors import FieldError, Interrupted
from fedsim.installed import added

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
    },
    "Know the machine": {"doctor": "doctor"},
}

# A command with options of its own, that some words of another ask for -> where it is. Those in
# capitals stand for any word. `diff` is asked for by its former name alone.
MODES = {
    "new --schema": "start:schema_command",
    "verify --against RUN": "records:against_command",
    "diff": "records:diff_command",
}

# Words of earlier versions -> what they are now. They work, and are not shown.
FORMER = {
    "partition": "data partition",
    "schema": "new --schema",
    "check --against": "verify --against",
}

# Commands and modes that write what --resume continues.
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
def homes() -> dict[str, str]:
    """Return where every command and every mode, in words, is: `package.module:function`."""
    found = {}
    for package, commands in [("fedsim.cli", COMMANDS), *added("COMMANDS")]:
        for names in commands.values():
            for name, module in names.items():
                found[name] = f"{package}.{module}:{name}_command"
    for package, modes in [("fedsim.cli", MODES), *added("MODES")]:
        for words, home in modes.items():
            found[words] = f"{package}.{home}"
    return found


def every_command() -> dict[str, click.Command]:
    """Return the commands with their modes and those below them, in words, in the order of use."""
    ctx = click.Context(cli)
    found: dict[str, click.Command] = {}
    for name in cli.list_commands(ctx):
        for words in (name, *modes_of(name)):
            command = cli.get_command(ctx, words)
            assert command is not None
            if command not in found.values():
                found[words] = command
            for below, inner in getattr(command, "commands", {}).items():
                found[f"{words} {below}"] = inner
    return found


def modes_of(command: str) -> list[str]:
    """Return the modes of a command, in words."""
    return [words for words in homes() if words.startswith(f"{command} ")]


@functools.cache
def former() -> dict[str, str]:
    """Return words of earlier versions -> what they are now."""
    found = dict(FORMER)
    for _, words in added("FORMER"):
        found |= words
    return found


def in_new_words(arguments: list[str]) -> tuple[list[str], str]:
    """Return a command line in the words of today, and which words it had; else an empty text.

    >>> in_new_words(["schema", "--out", "x.json"])
    (['new', '--schema', '--out', 'x.json'], 'schema')
    """
    options = {word.partition("=")[0] for word in arguments}
    for old, new in former().items():
        command, *flags = old.split()
        if arguments[:1] == [command] and options.issuperset(flags):
            words = [word for word in new.split() if word not in flags]
            return [*words, *arguments[1:]], old
    return arguments, ""


def asked(arguments: list[str]) -> tuple[str, list[str]]:
    """Return the command or mode that a command line asks for, and its own words.

    >>> asked(["new", "--out", "x.json", "--schema"])
    ('new --schema', ['--out', 'x.json'])
    """
    command, *given = arguments
    for words in modes_of(command):
        own = _own_words(words.split()[1:], given)
        if own is not None:
            return words, own
    return command, given


def _own_words(asking: list[str], given: list[str]) -> list[str] | None:
    """Return the words without those that ask for a mode, wherever they are; None without these.

    An option with any value is one of the mode itself, and stays.
    """
    if asking == ["FILE.py"]:
        return given if given and given[0].endswith(".py") else None
    if asking[-1].isupper():
        is_asked = any(word.partition("=")[0] == asking[0] for word in given)
        return given if is_asked else None

    joined = "=".join(asking)  # --format=zip
    if joined in given:
        asking = [joined]
    for at in range(len(given)):
        after = at + len(asking)
        if given[at:after] == asking:
            return [*given[:at], *given[after:]]
    return None


# New objects after which Python looks for unused ones: imports make half a million that stay.
GARBAGE_COLLECTION_THRESHOLD = 50_000


class LazyGroup(click.Group):
    """Commands that are imported when they are asked for, listed in the order of use."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [name for names in headings().values() for name in names]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in homes():
            return None
        command = pkgutil.resolve_name(homes()[cmd_name])
        if modes := modes_of(cmd_name):
            command.epilog = "\n".join(["\b", "Also:", *map(self._line_of, modes)])
        return command

    def _line_of(self, mode: str) -> str:
        """Return a mode, and what it does, for the help of its command."""
        summary = pkgutil.resolve_name(homes()[mode]).get_short_help_str(200)
        return f"  fedsim {mode} --help\n{textwrap.indent(textwrap.fill(summary, 54), 6 * ' ')}"

    def resolve_command(self, ctx: click.Context, args: list[str]):
        args, old = in_new_words(args)
        if old:
            line = f"fedsim: 'fedsim {old}' is now 'fedsim {former()[old]}'"
            click.echo(line, err=True)
        name, own = asked(args)
        is_unknown = name not in homes() and not name.startswith("-")
        if is_unknown and not ctx.resilient_parsing:
            meant = meant_command(args, self.list_commands(ctx), former())
            raise click.UsageError(f"no such command '{name}'; {meant}", ctx)
        ctx.meta[OWN_WORDS] = own
        return super().resolve_command(ctx, [name, *own])

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
      fedsim new mine                 a commented scenario
      fedsim check mine.yaml          what a run will take
      fedsim run mine.yaml --seeds 5  run it over five seeds
      fedsim explain trimmed_mean     what a rule does

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
    """
    if arguments is None:
        arguments = sys.argv[1:]
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
    words = [word for word in arguments if word != "--debug"]
    if not words or asked(in_new_words(words)[0])[0] not in resumable:
        return "nothing was written"
    words = [word for word in arguments if word not in ("--force", "--resume")]
    return f"resume with: {shlex.join(['fedsim', *words, '--resume'])}"
