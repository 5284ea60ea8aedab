"""What a command line was meant to be, where it is none: commands and options by the field's other names, values as options."""

import difflib
import itertools
import re
import shlex
from collections.abc import Iterable, Iterator

import click

from fedsim.errors import nearest
from fedsim.synonyms import answer, synonym


def meant_command(words: list[str], known: Iterable[str]) -> str:
    """What a command that does not exist was meant to be.

    Args:
      words: the name that was typed, and what followed.
      known: the commands that there are.
    """
    name, rest = words[0], shlex.join(words[1:]) or "SCENARIO"
    if name.endswith((".yaml", ".yml")):
        return f"did you mean 'run {name}'?"
    if other := synonym(name, "command"):
        return answer(other._replace(ours=f"fedsim {other.ours}"), rest=rest, value=name)
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.55)
    return f"did you mean '{near[0]}'?" if near else f"there are {', '.join(known)}"


def meant_options(context: click.Context, arguments: list[str]) -> Iterator[str]:
    """A line for every option of a command line that its command does not have: what to write instead.

    Args:
      context: of the command.
      arguments: the whole command line.
    """
    flags = {flag: p for p in context.command.params for flag in (*p.opts, *p.secondary_opts)}
    if isinstance(context.command, click.Group):  # behind the command's name its own options follow
        arguments = arguments[
            : next((i for i, word in enumerate(arguments) if not word.startswith("-")), None)
        ]
    for flag, value in _unknown(flags, arguments):
        name = flag.lstrip("-")
        meant = _by_other_name(context, flags, name, value) or (
            edit_of(name, value) if "--set" in flags else ""
        )
        if (
            near := ""
            if meant
            else nearest(flag, [known for known in flags if known.startswith("--")], 0.7)
        ):
            meant = f"did you mean '{near}'?"
        yield f"no such option '{flag}'{'; ' if meant else ''}{meant}"


def _unknown(flags: dict[str, click.Parameter], arguments: list[str]) -> Iterator[tuple[str, str]]:
    """(flag, its value or what follows it) of every option that is not among the flags."""
    is_value = False  # of the option before
    for word, after in itertools.zip_longest(arguments, arguments[1:], fillvalue=""):
        flag, equals, value = word.partition("=")
        if is_value:
            is_value = False
            continue
        if word == "--":
            return
        if (
            not re.match(r"--?[A-Za-z]", word)
            or flag in ("--help", "-h")
            or (flag[:2] in flags and flag[1] != "-")
        ):
            continue
        known = flags.get(flag)
        if known is None:
            yield flag, value if equals else "" if after.startswith("-") else after
        else:
            is_value = isinstance(known, click.Option) and not (known.is_flag or equals)


def _by_other_name(
    context: click.Context, flags: dict[str, click.Parameter], name: str, value: str
) -> str:
    """The command's own option for a word of the field; empty where there is none."""
    other = synonym(name, f"option:{context.info_name}", "option")
    if other is None or (other.ours.startswith("--") and other.ours.split()[0] not in flags):
        return ""
    return answer(other, value=shlex.quote(value) if value else "VALUE")


def edit_of(name: str, value: str) -> str:
    """The `--set` that `--NAME VALUE` or `NAME=VALUE` was meant to be; empty for what is nowhere in a scenario."""
    other = synonym(name, "key")
    if other and (not other.ours or other.ours.startswith("--")):
        return answer(other)
    if other is None:
        from fedsim.scenario.keys import paths_of

        path = next(iter(paths_of(name.replace("-", "_"))), "")
    else:
        path = other.ours
    given = (
        "VALUE" if not value or (other and other.remark) else value
    )  # a remark says what values there are
    remark = f" ({other.remark})" if other and other.remark else ""
    return f"write --set {shlex.quote(f'{path}={given}')}{remark}" if path else ""
