"""Words of other tools that lead to ours: each once, and each to something that exists."""

import inspect

import yaml
from click.testing import CliRunner
from conftest import if_all_installed
from test_guesses import flags

from fedsim.cli import cli
from fedsim.cli.entry import asked, every_command
from fedsim.compose import ALIASES, FAMILIES
from fedsim.scenario.annotations import annotation_of, literal_words
from fedsim.scenario.explain import names
from fedsim.scenario.keys import keys_at
from fedsim.scenario.shorthand import call_of
from fedsim.spelling import plain
from fedsim.synonyms import synonyms

pytestmark = if_all_installed  # they are about all kinds and keys


def test_no_synonym_is_listed_twice_and_the_target_of_each_exists():
    places = [(plain(s.typed), s.where) for s in synonyms() if s.where != "parameter"]
    assert len(places) == len(set(places))
    every = set().union(*map(flags, every_command()))
    explained = {*names(), *every_command()}
    every_factory = [factory for kinds in FAMILIES.values() for factory in kinds.values()]
    every_parameter = set().union(*map(parameters, every_factory))
    for synonym in filter(lambda s: s.ours, synonyms()):
        where, _, of = synonym.where.partition(":")
        first = synonym.ours.split()[0]
        if where in ("command", "list"):
            words = asked(synonym.ours.split())[0]
            assert words in every_command() or words == "data", synonym
            if first in ("list", "explain") and "{" not in synonym.ours:
                assert is_answered(synonym.ours), synonym
        elif first.startswith("--"):
            assert first in (flags(of) if where == "option" and of else every), synonym
        elif where == "key":
            assert keys_at(synonym.ours) or keys_at(f"{of}.{synonym.ours}"), synonym
        elif where == "parameter":
            assert set(synonym.ours.split()) <= every_parameter, synonym
        elif where in ("kind", "number", "suffix") and of in FAMILIES | {"": {}}:
            assert is_link(synonym.ours, of), synonym
        elif where in ("absent", "column"):
            assert set(synonym.ours.split()) <= explained, synonym
        elif where == "value" and not of.startswith("--") and not set("{[") & set(synonym.ours):
            assert synonym.ours in literal_words(annotation_of(keys_at(of)[0].field)), synonym


def is_answered(line: str) -> bool:
    return CliRunner().invoke(cli, line.split()).exit_code == 0


def parameters(factory) -> list[str]:
    return list(inspect.signature(factory).parameters)


def is_link(text: str, family: str) -> bool:
    """Whether a link as written, with placeholders filled in, is one of a family, or of any."""
    text = text.replace("{value}", "1").replace("{number}", "1")
    links = [text]
    if not text.startswith("{"):
        links = text.replace(" or ", ", ").split(", ") if "(" not in text else [text]
    for link in links:
        values = yaml.safe_load(link) if link.startswith("{") else call_of(link)
        families = {"": FAMILIES, "stage": ("stage", "aggregate_stage", "rule")}.get(
            family, [family]
        )
        kind = ALIASES.get(values["kind"], values["kind"])
        factories = [FAMILIES[name][kind] for name in families if kind in FAMILIES[name]]
        given = set(values) - {"kind", "lr", "path", "loss", "nesterov"}
        if not any(given <= set(parameters(factory)) for factory in factories):
            return False
    return True
