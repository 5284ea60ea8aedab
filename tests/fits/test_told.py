"""`fedsim list --with`, and the end of `fedsim explain`."""

import json

import pytest
from click.testing import CliRunner
from conftest import if_all_installed

from fedsim.cli.entry import cli
from fedsim.scenario import fits

pytestmark = if_all_installed  # what is told is about all kinds and sections

OWN = '''
from fedsim import client
from fedsim.clients import sgd

@client
def remembers_all():
    """Remembers the model."""
    return sgd()._replace(memory=lambda shared, key: shared["params"])
'''


def told(*words: str) -> str:
    return CliRunner().invoke(cli, words, catch_exceptions=False).output


def test_what_goes_with_a_kind_is_listed_by_family_with_the_reasons_of_the_rest():
    shown = told("list", "codecs", "--with", "krum")
    assert "codecs (17 of 19 go with krum, by their defaults)" in shown
    reason = "krum compares single updates, and secure_aggregation sums messages"
    assert f"not secure_aggregation: {reason}" in " ".join(shown.split())
    assert "rules" not in shown.split()


def test_as_json_every_kind_has_its_reason_or_none():
    reasons = json.loads(told("list", "--with", "privacy", "--json"))
    assert reasons["clients"]["sgd"] == "" and "one" in reasons["clients"]["ifca"]
    assert {"clients", "rules", "cohorts", "timetables", "topologies", "sections"} <= set(reasons)


@pytest.mark.parametrize("name", ["krum", "client/scaffold", "client.width", "multikrum"])
def test_both_sides_say_the_same(name):
    family, own = fits.traits_named(name)
    for of_kinds in fits.traits().values():
        for other in of_kinds.values():
            assert bool(fits.refusal(own, other)) == bool(fits.refusal(other, own)), (family, name)


@pytest.mark.parametrize("name", ["scaffold", "evaluate.diagnostics", "privacy"])
def test_an_explanation_ends_with_what_it_goes_with(name):
    heading = f"What it goes with: fedsim list --with {name}"
    _, found, rest = told("explain", name).partition(heading)
    assert found and "not beside" in rest


def test_a_kind_of_ones_own_is_told_likewise(tmp_path):
    file = tmp_path / "own.py"
    file.write_text(OWN)
    assert "a client remembers a row" in told("explain", "remembers_all", "--plugin", str(file))
    shown = told("list", "timetables", "--with", "remembers_all", "--plugin", str(file))
    assert "timetables (1 of 4 go with remembers_all" in shown


def test_unknown_and_ambiguous_names_get_one_line():
    for name, answer in [("kurm", "did you mean 'krum'?"), ("hierarchical", "rule/hierarchical")]:
        with pytest.raises(Exception, match=answer):
            told("list", "--with", name)
