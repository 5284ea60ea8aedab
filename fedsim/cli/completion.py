"""What a shell completes behind `--set`, `--methods` and `--vary`: keys, kinds and their values.

Nothing here imports JAX; what stands on the command line is read, and nothing of it is run.
"""

import inspect
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

import click
from click.shell_completion import BashComplete, CompletionItem, add_completion_class

from fedsim.errors import ScenarioError
from fedsim.kinds import ALIASES, FAMILIES
from fedsim.scenario.annotations import (
    annotation_of,
    item_of,
    kinds_of,
    literal_words,
    plain_types,
)
from fedsim.scenario.keys import Key, keys, keys_at
from fedsim.scenario.load import document_of
from fedsim.scenario.reader import value_at
from fedsim.scenario.schema import AllowedKinds
from fedsim.scenario.shipped import shipped

INDEX = re.compile(r"\[\d+\]")


def scenarios(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete a scenario: a file, which the shell looks for, or the name of one that is shipped.

    A name without its folder is completed where no other scenario has it.
    """
    files = CompletionItem(incomplete, type="file")
    last = Counter(name.rpartition("/")[2] for name in shipped())
    short = [name for name, times in last.items() if times == 1]
    names = sorted({*shipped(), *short})
    return [*(CompletionItem(name) for name in names if name.startswith(incomplete)), files]


def edits(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Complete PATH=VALUE."""
    path, equals, value = incomplete.partition("=")
    if not equals:
        return [completed for completed in _paths(ctx, path) if completed.startswith(incomplete)]
    return [f"{path}={word}" for word in _values(path) if word.startswith(value)]


def axes(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Complete PATH=V1,V2."""
    path, equals, values = incomplete.partition("=")
    if not equals:
        return edits(ctx, param, incomplete)
    before, last = _at_last_comma(values)
    return [f"{path}={before}{word}" for word in _values(path) if word.startswith(last)]


def methods(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Complete NAME,NAME(a=1)."""
    before, last = _at_last_comma(incomplete)
    factories = FAMILIES["rule"] | FAMILIES["method"]
    name, bracket, arguments = last.partition("(")
    if not bracket:
        return [f"{before}{kind}" for kind in sorted(factories) if kind.startswith(last)]
    if name not in factories:
        return []

    head, comma, parameter = arguments.rpartition(",")
    head = f"{before}{name}({head}{comma}"
    parameters = inspect.signature(factories[name]).parameters
    return [f"{head}{known}=" for known in parameters if known.startswith(parameter.strip())]


def _at_last_comma(text: str) -> tuple[str, str]:
    """Split a list behind its last comma that is in no bracket."""
    depth = 0
    start = 0
    for i, character in enumerate(text):
        if character in "([{":
            depth += 1
        elif character in ")]}":
            depth -= 1
        elif character == "," and depth == 0:
            start = i + 1
    return text[:start], text[start:]


def _paths(ctx: click.Context, typed: str) -> list[str]:
    """Return what a path may go on to be: up to its next dot, or with `=` where it may end."""
    last = typed.rpartition(".")[2]
    head = typed[: len(typed) - len(last)]
    sections = tuple(INDEX.sub("", head).split(".")[:-1])
    depth = len(sections)
    values = _values_written(ctx)
    named = {*_words(values)}
    if named:
        named |= _default_kinds()

    completed: dict[str, None] = {}
    for path, keys_here in keys().items():
        if len(path) <= depth or path[:depth] != sections or not _fits(keys_here, named):
            continue
        name = path[depth]
        if not name.startswith(last.partition("[")[0]):
            continue
        if len(path) == depth + 1:
            completed[f"{head}{name}="] = None
            continue
        for index in _indices(values, (*sections, name)):
            completed[f"{head}{name}{index}."] = None
    return list(completed)


def _fits(keys_here: Iterable[Key], named: set[str]) -> bool:
    """Whether one of the keys at a path belongs to every kind, or to one of those named."""
    return not named or any(not key.kinds or named & {*key.kinds} for key in keys_here)


def _indices(values: dict[str, Any], path: tuple[str, ...]) -> list[str]:
    """Return `[0]`, `[1]` ... for a list of links, which has at least one; else nothing."""
    keys_here = keys().get(path, [])
    if not keys_here or _kinds_of_items(keys_here[0]) is None:
        return [""]
    links = value_at(values, path)
    count = len(links) if isinstance(links, list) and links else 1
    return [f"[{i}]" for i in range(count)]


def _kinds_of_items(key: Key) -> AllowedKinds | None:
    """Return the kinds of the links of a list; None for any other key."""
    item = item_of(annotation_of(key.field))
    return None if item is None else kinds_of(item)


def _values_written(ctx: click.Context) -> dict[str, Any]:
    """Return the values of the scenario on the command line, its base merged in; else nothing."""
    # An option that still lacks its value leaves the arguments unread.
    names = [ctx.params.get("scenario"), *ctx.args]
    name = next((name for name in names if name), None)
    if name is None:
        return {}
    try:
        return document_of(name).values
    except (ScenarioError, OSError):
        return {}


def _words(value: Any) -> Iterator[str]:
    """Yield all texts among plain values, aliases replaced: the kinds that a scenario names."""
    if isinstance(value, dict):
        for inner in value.values():
            yield from _words(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _words(inner)
    elif isinstance(value, str):
        name = value.partition("(")[0]
        yield ALIASES.get(name, name)


def _default_kinds() -> set[str]:
    """Return the words that keys are without being written, kinds among them."""
    defaults = [key.field.default for keys_here in keys().values() for key in keys_here]
    return {default for default in defaults if isinstance(default, str)}


def _values(path: str) -> list[str]:
    """Return the words that a key may be: kinds, fixed words, true and false."""
    words: dict[str, None] = {}
    for key in keys_at(path):
        annotation = annotation_of(key.field)
        kinds = kinds_of(annotation)
        kinds_of_items = _kinds_of_items(key)
        if kinds is not None:
            words |= dict.fromkeys(kind.name for kind in kinds)
        if kinds_of_items is not None:
            is_link = path.endswith("]")
            form = "{}" if is_link else "[{}]"
            words |= dict.fromkeys(form.format(kind.name) for kind in kinds_of_items)
        words |= dict.fromkeys(literal_words(annotation))
        if bool in plain_types(annotation):
            words |= {"true": None, "false": None}
    return sorted(words)


class Bash(BashComplete):
    """Completion for bash, which splits words at `=` and ends every word with a space.

    Attributes:
      cut: what bash has split off in front of the word that it completes.
    """

    source_template = """\
%(complete_func)s() {
    local IFS=$'\\n'
    local response
    response=$(env COMP_WORDS="${COMP_WORDS[*]}" COMP_CWORD=$COMP_CWORD \\
        %(complete_var)s=bash_complete $1)
    for completion in $response; do
        IFS=',' read -r type value <<< "$completion"
        if [[ $type == 'dir' ]]; then
            COMPREPLY=()
            compopt -o dirnames
        elif [[ $type == 'file' ]]; then
            COMPREPLY=()
            compopt -o default
        elif [[ $type == 'plain' ]]; then
            COMPREPLY+=("$value")
            [[ $value == *[=.] ]] && compopt -o nospace
        fi
    done
    return 0
}
complete -o nosort -F %(complete_func)s %(prog_name)s
"""
    cut = ""

    def get_completion_args(self) -> tuple[list[str], str]:
        """Return the words before the one that is completed, and that one, as they were typed."""
        words, word = super().get_completion_args()
        joined: list[str] = []
        for next_word in (*words, word):
            is_split = next_word == "=" or (joined and joined[-1].endswith("="))
            if is_split and joined and not joined[-1].startswith("-"):
                joined[-1] += next_word
            else:
                joined.append(next_word)
        *before, last = joined
        if last != word:
            self.cut = last[: len(last) - len(word.lstrip("="))]
        return before, last

    def format_completion(self, item: CompletionItem) -> str:
        """Return a completion as the script reads it, without what bash has split off."""
        return f"{item.type},{str(item.value).removeprefix(self.cut)}"


add_completion_class(Bash)
