"""How an error ends a command: one line per problem, and an exit code."""

import os
import re
import sys
import tempfile
import traceback

import click

from fedsim.cli.guesses import edit_of, meant_options
from fedsim.errors import Failure, LostError, exhausted, exit_code, printable

JAX_SETTINGS = os.path.join(
    "jax", "_src", "config.py"
)  # where JAX reads JAX_* from the environment
PLUGIN = "fedsim_plugin_"  # what the modules of plug-in files are called


def print_usage(error: click.ClickException, arguments: list[str]) -> int:
    """A command line that cannot be understood, in a line for each problem that says what was meant -> exit code.

    A command without any word behind it gets its help, on stdout.
    """
    context = getattr(error, "ctx", None)
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        click.echo(error.format_message())
        return 2
    text = " ".join(error.format_message().split()).rstrip(".")
    lines = [f"{text[:1].lower()}{text[1:]}"]
    if context is not None and isinstance(error, click.NoSuchOption):
        words = (
            arguments[arguments.index(str(context.info_name)) + 1 :]
            if context.parent
            else arguments
        )
        lines = list(dict.fromkeys(meant_options(context, words))) or lines
    elif context is not None and (meant := _meant_as_edit(error, context)):
        lines = [f"{lines[0].partition('. ')[0]}; {meant}"]
    for line in lines:
        help_ = (
            ""
            if context is None
            else f"{' ' if line.endswith('?') else '; '}see {context.command_path} --help"
        )
        click.echo(printable(f"fedsim: error: {line}{help_}"), err=True)
    return 2


def _meant_as_edit(error: click.ClickException, context: click.Context) -> str:
    """What `rounds=5` was meant to be, where the command takes `--set`; else nothing."""
    words = re.fullmatch(r"Got unexpected extra arguments? \((.*)\)", error.format_message())
    if words and context.info_name == "compare":
        some = words[1].replace(" ", ",")
        return f"write methods in one word, --methods fedavg,{some}; two runs are compared by fedsim diff"
    if not any("--set" in option.opts for option in context.command.params):
        return ""
    extra = re.fullmatch(
        r"Got unexpected extra argument \(([\w.\[\]]+)=(.*)\)", error.format_message()
    )
    return (edit_of(extra[1], extra[2]) or f"write --set {extra[1]}={extra[2]}") if extra else ""


def print_error(error: Exception, farewell: str) -> int:
    """Any other error, in one line per problem -> exit code."""
    code = exit_code(error)
    if isinstance(error, LostError):
        click.echo(f"fedsim: error: {printable(str(error))}; {farewell}", err=True)
        return code
    if (
        code == 1
        and _among_others()
        and ("Gloo" in str(error) or "distributed" in str(error).lower())
    ):
        click.echo(f"fedsim: error: another process of this run is gone; {farewell}", err=True)
        return code
    if reason := exhausted(error):
        code, error = (
            8,
            MemoryError(
                f"an allocation failed ({reason}); lower numerics.block, client.batch or the model"
            ),
        )
    setting = _in_a_setting(error)
    if setting:
        code, error = 2, ValueError(setting)
    if code == 1:
        with tempfile.NamedTemporaryFile(
            "w", prefix="fedsim-", suffix=".txt", delete=False
        ) as file:
            file.write(traceback.format_exc())
        place = _in_a_plugin(error) or f"unforeseen {type(error).__name__}"
        text = str(error) if isinstance(error, Failure) else f"fedsim: {place}"
        click.echo(printable(f"{text}; traceback saved in {file.name}"), err=True)
        return code
    text = str(error)
    if code == 4 and isinstance(error, OSError) and error.filename:
        text = f"{error.filename}: {error.strerror}"
    prefix = "" if isinstance(error, Failure) and error.located else "fedsim: error: "
    for line in text.splitlines():
        click.echo(prefix + printable(line), err=True)
    return code


def _in_a_setting(error: Exception) -> str:
    """The environment variable whose value JAX refuses when it is imported, and JAX's words; empty when there is none."""
    frames = traceback.extract_tb(error.__traceback__)
    if not (
        isinstance(error, ValueError) and frames and frames[-1].filename.endswith(JAX_SETTINGS)
    ):
        return ""
    named = (name.upper() for name in re.findall(r"\bjax_\w+", str(error), re.IGNORECASE))
    name = next((name for name in named if name in os.environ), None)
    if name is None:
        return ""
    reason = " ".join(str(error).split())[:200]
    return f"environment variable {name}: JAX does not take {os.environ[name][:80]!r} ({reason}); unset it"


def _in_a_plugin(error: Exception) -> str:
    """Place and message of a failure in a user's code; empty when it was in fedsim's."""
    plugins = {
        getattr(module, "__file__", None)
        for name, module in sys.modules.items()
        if name.startswith(PLUGIN)
    }
    places = [
        frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename in plugins
    ]
    if not places:
        return ""
    message = str(error).strip().splitlines() or [""]
    return f"{places[-1].filename}:{places[-1].lineno}: {type(error).__name__}: {message[0][:200]}"


def leave(code: int) -> None:
    """End; one of several processes does not wait for the others, which learn of it."""
    if _among_others():
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    sys.exit(code)


def _among_others() -> bool:
    """Whether this process is one of several of a run."""
    processes = sys.modules.get("fedsim.engine.processes")
    return processes is not None and processes.joined()
