"""What a wrong command line was meant as: commands and options by the field's other names."""

import difflib
import itertools
import re
import shlex
from collections.abc import Iterable, Iterator

import click

from fedsim.errors import nearest
from fedsim.synonyms import answer, synonym


def meant_command(words: list[str], commands: Iterable[str]) -> str:
    """Return what a command that does not exist was meant as.

    Args:
      words: the name that was typed, and the words after it.
      commands: the names of all commands.
    """
    name, *arguments = words
    if name.endswith((".yaml", ".yml")):
        return f"did you mean 'run {name}'?"
    if ours := synonym(name, "command"):
        ours = ours._replace(ours=f"fedsim {ours.ours}")
        return answer(ours, rest=shlex.join(arguments) or "SCENARIO", value=name)
    near = difflib.get_close_matches(name, commands, n=1, cutoff=0.55)
    return f"did you mean '{near[0]}'?" if near else f"there are {', '.join(commands)}"


def meant_options(context: click.Context, arguments: list[str]) -> Iterator[str]:
    """Yield a line for every option that the command does not have: what to write instead.

    Args:
      context: the command's context.
      arguments: the words after the command's name.
    """
    flags: dict[str, click.Parameter] = {}
    for parameter in context.command.params:
        for flag in (*parameter.opts, *parameter.secondary_opts):
            flags[flag] = parameter

    # The options of a group come before the name of its command.
    if isinstance(context.command, click.Group):
        arguments = list(itertools.takewhile(lambda word: word.startswith("-"), arguments))
    for flag, value in _unknown_options(flags, arguments):
        meant = _meant_option(context, flags, flag, value)
        yield f"no such option '{flag}'; {meant}" if meant else f"no such option '{flag}'"


def _meant_option(
    context: click.Context, flags: dict[str, click.Parameter], flag: str, value: str
) -> str:
    """Return what to write instead of an option, empty if that is not known."""
    name = flag.lstrip("-")
    if meant := _by_other_name(context, flags, name, value):
        return meant
    if "--set" in flags and (meant := edit_of(name, value)):
        return meant
    long_flags = [option for option in flags if option.startswith("--")]
    near = nearest(flag, long_flags, 0.7)
    return f"did you mean '{near}'?" if near else ""


def _unknown_options(
    flags: dict[str, click.Parameter], arguments: list[str]
) -> Iterator[tuple[str, str]]:
    """Yield (flag, its value or the word after it) of the options that are not among the flags."""
    is_value = False  # of the option before
    for word, next_word in itertools.zip_longest(arguments, arguments[1:], fillvalue=""):
        if is_value:
            is_value = False
            continue
        if word == "--":
            return

        flag, equals, value = word.partition("=")
        is_option = re.match(r"--?[A-Za-z]", word) and flag not in ("--help", "-h")
        is_short_with_value = flag[:2] in flags and flag[1] != "-"  # -srounds=3
        if not is_option or is_short_with_value:
            continue
        option = flags.get(flag)
        if isinstance(option, click.Option):
            is_value = not option.is_flag and not equals
        elif option is None and equals:
            yield flag, value
        elif option is None:
            yield flag, "" if next_word.startswith("-") else next_word


def _by_other_name(
    context: click.Context, flags: dict[str, click.Parameter], name: str, value: str
) -> str:
    """Return the command's own option for a word of the field, empty if there is none."""
    ours = synonym(name, f"option:{context.info_name}", "option")
    if ours is None:
        return ""
    flag = ours.ours.split()[0] if ours.ours else ""
    if flag.startswith("--") and flag not in flags:
        return ""
    return answer(ours, value=shlex.quote(value) if value else "VALUE")


def edit_of(name: str, value: str) -> str:
    """Return the `--set` that `--NAME VALUE` or `NAME=VALUE` was meant as.

    It is empty for a name that is nowhere in a scenario.
    """
    value = value or "VALUE"
    ours = synonym(name, "key")
    if ours is None:
        from fedsim.scenario.keys import paths_of

        paths = paths_of(name.replace("-", "_"))
        return _write_edit(paths[0], value) if paths else ""
    if not ours.ours or ours.ours.startswith("--"):
        return answer(ours)
    if ours.remark:
        # It says what values there are, and the one that was typed may not be among them.
        return f"{_write_edit(ours.ours, 'VALUE')} ({ours.remark})"
    return _write_edit(ours.ours, value)


def _write_edit(path: str, value: str) -> str:
    return f"write --set {shlex.quote(f'{path}={value}')}"
