"""What is examined: a kind with its arguments, and what its file claims about it."""

import functools
import inspect
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fedsim.errors import Problem, ScenarioError, did_you_mean
from fedsim.kinds import ALIASES, FAMILIES
from fedsim.kinds.claims import claims
from fedsim.kinds.examples import EXAMPLES
from fedsim.scenario import enable
from fedsim.scenario.plugins import is_file
from fedsim.scenario.shorthand import call_of

ALWAYS = "always"  # of a limit: under no condition, the kind is another one
NOTHING = "none"  # of a limit: what the kind does is nothing, and its link may be left out

Section = dict[str, Any]
"""A link as in a scenario, `{"kind": ..., "f": 2}`."""


class Subject:
    """A kind that is examined.

    Attributes:
      section: its link as in a scenario, with the arguments that were given.
      limits: condition -> the kind that it is then, as the file claims.
      edits: `PATH=VALUE` texts for the scenarios in which it is tried.
    """

    def __init__(self, family: str, section: Section, edits: tuple[str, ...] = (), seed: int = 0):
        self.family = family
        self.section = section
        self.edits = edits
        self.seed = seed
        module = sys.modules.get(self.factory.__module__)
        self.limits: dict[str, str] = claims(module, "limits", self.kind, dict)
        self.laws: tuple[str, ...] = tuple(claims(module, "laws", self.kind, list))

    @property
    def kind(self) -> str:
        """The name of the kind."""
        return self.section["kind"]

    @property
    def factory(self) -> Any:
        """What makes the kind of its arguments."""
        return FAMILIES[self.family][self.kind]

    @property
    def call(self) -> str:
        """The kind with its arguments, as `krum(f=2)`."""
        return written(self.section)

    @property
    def is_users(self) -> bool:
        """Whether the kind is not one of fedsim's own."""
        return not self.factory.__module__.startswith("fedsim.")

    @functools.cached_property
    def made(self) -> Any:
        """What the factory makes."""
        return made(self.family, self.section)

    def under(self, condition: str) -> tuple[Section, tuple[str, ...]]:
        """The section under the condition of a limit, and the edits of the scenario.

        `mu=0, client.steps=1` changes the parameter mu of the kind and the key client.steps of the
        scenario.
        """
        parameters = inspect.signature(self.factory).parameters
        if condition == ALWAYS:
            return self.section, ()
        try:
            values = (call_of(f"kind({condition})") or {}) | {"kind": self.kind}
        except ValueError as error:
            raise refusal(f"limits of {self.kind}", f"{condition!r}: {error}") from None
        own = {name: value for name, value in values.items() if name in parameters}
        edits = [
            f"{name}={json.dumps(value)}"
            for name, value in values.items()
            if name not in parameters and name != "kind"
        ]
        return {**self.section, **own}, tuple(edits)


def refusal(where: str, what: str) -> ScenarioError:
    """Bad input as one line (exit code 2)."""
    return ScenarioError([Problem(where, what)], "conform")


def made(family: str, section: Section) -> Any:
    """What the factory of a section makes, with the codecs inside it.

    Raises:
      ScenarioError: where the factory fails.
    """
    arguments = {name: value for name, value in section.items() if name != "kind"}
    if family == "codec" and "codec" in arguments:
        arguments["codec"] = made("codec", as_section(arguments["codec"]))
    try:
        return FAMILIES[family][section["kind"]](**arguments)
    except ScenarioError:
        raise
    except Exception as error:  # whatever a user's factory does
        text = f"{type(error).__name__}: {error}".splitlines()[0]
        raise refusal(f"{family} {section['kind']}", f"its factory raises {text}") from error


def as_section(call: Any) -> Section:
    """`krum(f=2)` as a section."""
    if isinstance(call, Mapping):
        return dict(call)
    try:
        section = call_of(call)
    except ValueError as error:
        raise refusal(call, str(error)) from None
    if section is None:
        raise refusal(call, "is neither a kind, as krum(f=2), nor a file that ends in .py")
    return section


def written(section: Section) -> str:
    """A section as a call."""
    arguments = [f"{name}={value}" for name, value in section.items() if name != "kind"]
    return f"{section['kind']}({', '.join(arguments)})" if arguments else section["kind"]


def subjects_of(targets: tuple[str, ...], edits: tuple[str, ...], seed: int) -> list[Subject]:
    """The kinds that targets name: those of files, unless some of their kinds are named.

    Args:
      targets: paths of Python files, names of plug-ins, and kinds as `krum(f=2)`.
    """
    files = [target for target in targets if is_file(target)]
    named = [as_section(target) for target in targets if not is_file(target)]
    for file in files:
        enable(file)

    subjects = [Subject(family_of(section["kind"]), section, edits, seed) for section in named]
    if not named:
        for file in files:
            subjects += _subjects_of_file(file, edits, seed)
    for subject in subjects:
        _complete(subject)
    return subjects


def _subjects_of_file(file: str, edits: tuple[str, ...], seed: int) -> list[Subject]:
    """The kinds that a file has registered, of families with laws."""
    from fedsim.tools.conform.families import LAWS

    module = f"fedsim_plugin_{Path(file).stem}"
    registered = [
        (family, kind)
        for family, kinds in FAMILIES.items()
        for kind, factory in kinds.items()
        if factory.__module__ == module
    ]
    if not registered:
        text = "registers no kind; decorate a factory, as with @fedsim.rule"
        raise ScenarioError([Problem("", text)], file)
    with_laws = [pair for pair in registered if pair[0] in LAWS]
    if not with_laws:
        listed = ", ".join(f"{family} {kind}" for family, kind in registered)
        text = f"registers {listed}; there are laws of {', '.join(LAWS)}"
        raise ScenarioError([Problem("", text)], file)
    return [Subject(family, {"kind": kind}, edits, seed) for family, kind in with_laws]


def family_of(name: str) -> str:
    """The family of a kind, of those with laws; a method's client or rule comes first."""
    from fedsim.tools.conform.families import LAWS

    for family in LAWS:
        if name in FAMILIES[family]:
            return family
    known = [kind for family in LAWS for kind in FAMILIES[family]]
    if name in ALIASES:
        raise refusal(name, f"is another name of {ALIASES[name]}; write that")
    near = did_you_mean(name, known, see="fedsim list")
    raise refusal(name, f"is no kind with laws ({', '.join(LAWS)}){near}")


def _complete(subject: Subject) -> None:
    """Give parameters without defaults that were not named the values in `EXAMPLES`."""
    parameters = inspect.signature(subject.factory).parameters
    where = f"{subject.family} {subject.kind}"
    for name in subject.section:
        if name != "kind" and name not in parameters:
            raise refusal(where, f"has no parameter '{name}'{did_you_mean(name, parameters)}")

    for name, parameter in parameters.items():
        if parameter.default is parameter.empty and name not in subject.section:
            if name not in EXAMPLES:
                text = f"needs {name}; name it as '{subject.kind}({name}=...)'"
                raise refusal(where, text)
            subject.section[name] = EXAMPLES[name]
