"""How an error ends a command: one line per problem, and an exit code."""

import os
import re
import sys
import tempfile
import traceback

import click

from fedsim.cli.suggestions import OWN_WORDS, edit_of, meant_options
from fedsim.errors import Failure, LostError, ScenarioError, brief, exhausted, exit_code
from fedsim.synonyms import answer, synonym

# Where JAX reads the variables JAX_* of the environment.
JAX_CONFIG = os.path.join("jax", "_src", "config.py")

# How the names of the modules of plug-in files begin.
PLUGIN = "fedsim_plugin_"


def print_usage(error: click.ClickException, arguments: list[str]) -> int:
    """Print what is wrong with a command line, and what was meant, a line each -> the exit code.

    A command without any argument gets its help, on stdout.
    """
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        click.echo(error.format_message())
        return 2

    context = getattr(error, "ctx", None)
    for line in _usage_lines(error, context, arguments):
        if context is not None:
            separator = "" if line.endswith("?") else ";"
            line = f"{line}{separator} see {context.command_path} --help"
        click.echo(brief(f"fedsim: error: {line}"), err=True)
    return 2


def _usage_lines(
    error: click.ClickException, context: click.Context | None, arguments: list[str]
) -> list[str]:
    text = " ".join(error.format_message().split()).rstrip(".")
    line = f"{text[:1].lower()}{text[1:]}"
    if context is None:
        return [line]
    if isinstance(error, click.NoSuchOption):
        words = context.meta[OWN_WORDS] if context.parent else arguments
        return list(dict.fromkeys(meant_options(context, words))) or [line]
    meant = _meant_as_choice(error) or _meant_as_option(error, context)
    if isinstance(error, click.BadParameter) and meant:
        return [f"{line}; {meant}"]
    return [f"{line.partition('. ')[0]}; {meant}"] if meant else [line]


def _meant_as_choice(error: click.ClickException) -> str:
    """Return the value of an option that another one was meant as, such as latex for tex."""
    wrong = re.search(r"'([^']*)' is not one of", error.format_message())
    if wrong is None or not isinstance(error, click.BadParameter) or error.param is None:
        return ""
    row = synonym(wrong[1], *(f"value:{flag}" for flag in error.param.opts))
    return answer(row, value=wrong[1]) if row else ""


def _meant_as_option(error: click.ClickException, context: click.Context) -> str:
    """Return the option that an extra argument such as `rounds=5` was meant as; empty if none."""
    extra = re.fullmatch(r"Got unexpected extra argument(s?) \((.*)\)", error.format_message())
    if extra is None:
        return ""
    words = extra[2].split()
    takes_edits = any("--set" in option.opts for option in context.command.params)
    edits = [re.fullmatch(r"[+~]*([\w.\[\]]+)=(.*)", word) for word in words]
    if takes_edits and all(edits):
        meant = [_meant_as_edit(*edit.groups()) for edit in edits if edit]
        return "; ".join(dict.fromkeys(meant))
    if context.info_name == "list":
        return f"write one family at a time, fedsim list {words[0]}"
    if context.info_name != "compare":
        return ""
    if any("/" in word for word in words):
        return "to compare two runs, use fedsim verify DIRECTORY --against DIRECTORY"
    methods = ",".join(words)
    return (
        f"write methods in one word, --methods fedavg,{methods}; "
        "to compare two runs, use fedsim verify DIRECTORY --against DIRECTORY"
    )


def _meant_as_edit(path: str, value: str) -> str:
    """Return the `--set` that an extra word `PATH=VALUE` was meant as."""
    meant = edit_of(path, value) or f"write --set {path}={value}"
    if "," in value and not value.startswith(("[", "{")):
        meant += f"; for several values use fedsim compare SCENARIO --vary {path}={value}"
    return meant


def print_error(error: Exception, farewell: str) -> int:
    """Print any other error, in one line per problem -> the exit code."""
    code = exit_code(error)
    if isinstance(error, LostError):
        return _print(f"fedsim: error: {error}; {farewell}", code)
    if code == 1 and _lost_another_process(error):
        return _print(f"fedsim: error: another process of this run is gone; {farewell}", code)
    if reason := exhausted(error):
        remedy = "lower numerics.block or client.batch, or take a smaller model"
        if isinstance(error, ImportError):
            remedy = "JAX itself needs about 2 GB of address space: raise ulimit -v"
        return _print(f"fedsim: error: an allocation failed ({reason}); {remedy}", 8)
    if setting := _refused_setting(error):
        return _print(f"fedsim: error: {setting}", 2)
    if code == 1:
        return _print_unforeseen(error)

    if isinstance(error, ScenarioError):
        return _print_problems(error)
    text = str(error)
    if code == 4 and isinstance(error, OSError) and error.filename:
        text = f"{error.filename}: {error.strerror}"
    for line in text.splitlines():
        _print(f"fedsim: error: {line}", code)
    return code


def _print_problems(error: ScenarioError) -> int:
    """Print every problem of a scenario; on a terminal each with the line that it is about."""
    is_terminal = os.environ.get("FORCE_COLOR") or sys.stderr.isatty()
    for problem in error.listed():
        _print(problem.text(error.file), error.exit_code)
        if is_terminal:
            from fedsim.cli.excerpt import print_excerpt  # takes time, as it needs rich

            print_excerpt(problem, error.file)
    return error.exit_code


def _print(line: str, code: int) -> int:
    """Print a line on stderr, and return the exit code."""
    click.echo(brief(line), err=True)
    return code


def _print_unforeseen(error: Exception) -> int:
    """Print an error of fedsim or of a plug-in, and save its traceback in a file."""
    with tempfile.NamedTemporaryFile("w", prefix="fedsim-", suffix=".txt", delete=False) as file:
        file.write(traceback.format_exc())
    text = str(error)
    if not isinstance(error, Failure):
        text = f"fedsim: {_in_plugin(error) or f'unforeseen {type(error).__name__}'}"
    return _print(f"{text}; traceback saved in {file.name}", 1)


def _lost_another_process(error: Exception) -> bool:
    text = str(error)
    return _is_among_others() and ("Gloo" in text or "distributed" in text.lower())


def _refused_setting(error: Exception) -> str:
    """Return which environment variable JAX refuses when it is imported, and why; else empty."""
    frames = traceback.extract_tb(error.__traceback__)
    if not isinstance(error, ValueError) or not frames:
        return ""
    if not frames[-1].filename.endswith(JAX_CONFIG):
        return ""
    for setting in re.findall(r"\bjax_\w+", str(error), re.IGNORECASE):
        name = setting.upper()
        if name in os.environ:
            value = os.environ[name][:80]
            reason = " ".join(str(error).split())[:200]
            refusal = f"JAX does not take {value!r} ({reason})"
            return f"environment variable {name}: {refusal}; unset it"
    return ""


def _in_plugin(error: Exception) -> str:
    """Return line and message of a failure in a plug-in; empty if it was in fedsim."""
    plugins = set()
    for name, module in sys.modules.items():
        if name.startswith(PLUGIN):
            plugins.add(getattr(module, "__file__", None))
    frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename in plugins]
    if not frames:
        return ""
    lines = str(error).strip().splitlines() or [""]
    last = frames[-1]
    return f"{last.filename}:{last.lineno}: {type(error).__name__}: {lines[0][:200]}"


def leave(code: int) -> None:
    """End the process; one of several does not wait for the others, which notice it."""
    if _is_among_others():
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    sys.exit(code)


def _is_among_others() -> bool:
    processes = sys.modules.get("fedsim.engine.processes")
    return processes is not None and processes.is_multiprocess()
