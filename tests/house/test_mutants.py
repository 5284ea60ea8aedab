"""Bugs of public frameworks, put into fedsim: for every row of `MUTANTS.md`, its test must fail."""

import importlib
import json
import re
from typing import NamedTuple

import pytest
from conftest import ROOT, TESTS

pytestmark = pytest.mark.usefixtures("own_kinds")


class Mutant(NamedTuple):
    """A row of the table."""

    bug: str
    module: str  # path from the root
    changes: dict[str, str]  # text that occurs once -> its replacement
    test: str  # file::function[case]


def mutants() -> list[Mutant]:
    """The rows of `MUTANTS.md`."""
    rows = re.findall(r"^\| (.+) \|$", (TESTS / "MUTANTS.md").read_text(), re.M)[2:]
    found = []
    for row in rows:
        bug, _, module, changes, test = re.split(r" (?<!\\)\| ", row)
        pairs = dict(re.findall(r"`([^`]+)` → `([^`]+)`", changes.replace("\\|", "|")))
        found.append(Mutant(bug.replace("\\|", "|"), module.strip("`"), pairs, test.strip("`")))
    return found


MUTANTS = mutants()


def run_module_again(path: str, changes: dict[str, str]) -> None:
    """Run a module with changes of its text; its kinds are the changed ones from now on."""
    text = (ROOT / path).read_text()
    for old, new in changes.items():
        text = text.replace(old, new)
    name = path.removesuffix(".py").replace("/", ".")
    module = {"__name__": name, "__package__": name.rpartition(".")[0]}
    exec(compile(text, f"{path}, changed", "exec"), module)


def play(test: str) -> None:
    """Call a test by the name that pytest gives it."""
    file, function, case = re.fullmatch(r"(\w+)\.py::(\w+)(?:\[(.+)\])?", test).groups()
    module = importlib.import_module(file)
    by_name = {c["name"]: c for c in getattr(module, "CASES", ())}
    arguments = [] if case is None else [by_name.get(case, case)]
    getattr(module, function)(*arguments)


@pytest.mark.quick(len(MUTANTS))
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.bug)
def test_the_bug_is_caught(mutant):
    run_module_again(mutant.module, {})
    play(mutant.test)
    run_module_again(mutant.module, mutant.changes)
    with pytest.raises(AssertionError):
        play(mutant.test)


def test_every_change_follows_the_code():
    for mutant in MUTANTS:
        text = (ROOT / mutant.module).read_text()
        assert mutant.changes, mutant.bug
        assert all(text.count(old) == 1 for old in mutant.changes), mutant.bug


def test_every_bug_is_there_once():
    listed = {bug["mutant"] for bug in json.loads((TESTS / "oracles" / "mutants.json").read_text())}
    bugs = [mutant.bug for mutant in MUTANTS]
    assert len(listed) == 41 and listed <= set(bugs) and len(bugs) == len(set(bugs))
