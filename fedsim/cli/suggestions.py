"""What a wrong command line was meant as: commands and options by the field's other names."""

import itertools
import re
import shlex
from collections.abc import Iterator, Mapping

import click

from fedsim.errors import near_miss, nearest
from fedsim.synonyms import ABSENT, answer, synonym

# Where the context of a command line keeps what follows the command, or what asks for its mode.
OWN_WORDS = "fedsim.own_words"


def meant_command(words: list[str], commands: list[str], former: Mapping[str, str]) -> str:
    """Return what a command that does not exist was meant as."""
    from fedsim.scenario.guesses import in_words, row_of, what_is

    name, *arguments = words
    if name.endswith((".yaml", ".yml")):
        return f"did you mean 'run {name}'?"
    if row := row_of(name, "command"):
        rest = {"rest": shlex.join(arguments)} if arguments else {}
        return in_words(row, name, **rest)
    if near := nearest(name, [*commands, *former]):
        return f"did you mean '{former.get(near, near)}'?"
    return what_is(name) or f"there are {', '.join(commands)}"


def meant_options(context: click.Context, arguments: list[str]) -> Iterator[str]:
    """Yield a line for every option that the command does not have: what to write instead."""
    for flag, value in _unknown_options(context, arguments):
        meant = next(filter(None, _guesses_of_option(context, flag, value)), "")
        yield f"no such option '{flag}'; {meant}" if meant else f"no such option '{flag}'"


def _guesses_of_option(context: click.Context, flag: str, value: str) -> Iterator[str]:
    """Yield what an option may have been meant as, the likeliest first; some may be empty."""
    from fedsim.scenario.guesses import meant, what_is

    name = flag.lstrip("-")
    parameters = context.command.params
    flags = [flag for p in parameters for flag in (*p.opts, *p.secondary_opts)]
    long_flags = [flag for flag in flags if flag.startswith("--")]
    yield _by_other_name(context, flags, name, value)
    yield near_miss(flag, long_flags, alike=1.0)
    if commands := _commands_with(context, flag):
        yield f"it is an option of fedsim {', '.join(commands)}"
    if "--set" in flags:
        yield edit_of(name, value)
    yield near_miss(flag, long_flags, alike=0.7)
    yield meant(name) or what_is(name)


def _commands_with(context: click.Context, flag: str) -> list[str]:
    from fedsim.cli.entry import every_command

    if context.parent is None:
        return []
    commands: list[str] = []
    for words, command in every_command().items():
        if any(flag in parameter.opts for parameter in command.params):
            commands.append(words)
    return commands


def _unknown_options(context: click.Context, arguments: list[str]) -> Iterator[tuple[str, str]]:
    """Yield (flag, its value or the word after it) of the options that the command lacks."""
    options: list[click.Parameter]
    options = [p for p in context.command.get_params(context) if isinstance(p, click.Option)]
    alone = click.Command("alone", params=options, add_help_option=False)
    parser = alone.make_parser(click.Context(alone, resilient_parsing=True))
    parser.ignore_unknown_options = True

    # The options of a group come before the name of its command.
    is_group = isinstance(context.command, click.Group)
    has_options = (lambda word: word[:1] == "-") if is_group else (lambda word: word != "--")
    words = list(itertools.takewhile(has_options, arguments))
    _, left, _ = parser.parse_args(list(words))
    for word in left:
        # Of letters behind one dash, only those that are no options are left.
        typed = word if word in words else next((w for w in words if w.startswith(word)), "")
        if re.match(r"--?[A-Za-z]", typed):
            flag, equals, value = typed.partition("=")
            next_word = [*words[words.index(typed) + 1 :], ""][0]
            if not equals and not next_word.startswith("-"):
                value = next_word
            yield flag, value


def _by_other_name(context: click.Context, flags: list[str], name: str, value: str) -> str:
    """Return the command's own option for a word of the field, empty if there is none."""
    words = context.command_path.removeprefix("fedsim ")
    ours = synonym(name, f"option:{words}", "option")
    if ours is None:
        return ""
    flag = ours.ours.split()[0] if ours.ours else ""
    if flag.startswith("--") and flag not in flags:
        return ""
    return answer(ours, value=shlex.quote(value) if value else "VALUE", typed=name)


def edit_of(name: str, value: str) -> str:
    """Return the `--set` that `--NAME VALUE` or `NAME=VALUE` was meant as.

    It is empty for a name that is nowhere in a scenario.
    """
    from fedsim.scenario.guesses import in_words, row_of, what_is
    from fedsim.scenario.keys import keys_at, paths_of

    value = value or "VALUE"
    key = name.replace("-", "_")
    row = row_of(key, "key")
    if row is None:
        paths = paths_of(key)
        if not paths:
            return what_is(key)
        meanings = keys_at(paths[0])
        kinds = [kind for meaning in meanings for kind in meaning.kinds]
        of_kinds = f" (of {', '.join(kinds[:3])})" if meanings[0].kinds else ""
        return _write_edit(paths[0], value) + of_kinds
    if row.where == ABSENT or not row.ours or row.ours.startswith("--"):
        return in_words(row, key, value=value)
    if row.remark:
        # It says what values there are, and the one that was typed may not be among them.
        return f"{_write_edit(row.ours, 'VALUE')} ({row.remark})"
    return _write_edit(row.ours, value)


def _write_edit(path: str, value: str) -> str:
    return f"write --set {shlex.quote(f'{path}={value}')}"
