"""Every combination of kinds and sections has the verdict, and the places, that are recorded."""

import json
import re
import zlib
from typing import Any

import pytest
from conftest import WHOLE, if_all_installed

from fedsim.assemble import alone as alone_of_kinds
from fedsim.assemble.traits import NOUNS
from fedsim.installed import ROOT
from fedsim.kinds.shipped import homes
from fedsim.scenario import fits
from tests.fits.combinations import (
    NOT_INSTALLED,
    Values,
    alone,
    answer,
    answer_of,
    cases,
    of_checks,
    pairs,
    recorded,
    recorded_lines,
    refusal,
    said,
)

FAST = 320  # one in so many is in the fast part
CHECKS = 4  # and one in so many of the checks
LONG = 1 if WHOLE else 48  # and one in so many in the long part
LONG_CHECKS = 1 if WHOLE else 4  # and of the checks there
SLOW = {"resnet", "transformer"}  # models that take long to trace
RECORDED = recorded()
LINES = recorded_lines()


def differing(scenarios: dict[str, Values]) -> dict[str, Any]:
    """Return name -> the recorded answer and today's, where they differ."""
    answers = {name: answer(values) for name, values in scenarios.items()}
    answers = {name: found for name, found in answers.items() if found != NOT_INSTALLED}
    wanted = {name: RECORDED.get(name) for name in scenarios}
    return {name: (wanted[name], found) for name, found in answers.items() if found != wanted[name]}


def share(n: int) -> dict[str, Values]:
    """One in n of the kinds alone and of the pairs, always the same ones."""
    every = alone() | pairs()
    return {name: values for name, values in every.items() if zlib.crc32(name.encode()) % n == 0}


def first_of_some_checks() -> dict[str, Values]:
    """The first scenario that one in CHECKS of the checks refuses."""
    firsts: dict[str, tuple[str, Values]] = {}
    for name, values in of_checks().items():
        check = name.partition(":")[0]
        is_chosen = zlib.crc32(check.encode()) % CHECKS == 0
        if is_chosen and values["model"]["kind"] not in SLOW:
            firsts.setdefault(check, (name, values))
    return dict(firsts.values())


@if_all_installed
def test_the_table_has_a_row_for_every_case():
    assert set(RECORDED) == set(cases())


@if_all_installed
def test_everything_is_accepted_alone():
    assert {RECORDED[name] for name in alone()} == {("accepted", "")}


@if_all_installed
def test_some_pairs_have_the_recorded_verdict():
    assert not differing(share(FAST))


@if_all_installed
def test_a_refusal_of_some_checks_says_what_is_recorded():
    for name, values in first_of_some_checks().items():
        error = refusal(values)
        found = answer_of(error)
        if found == NOT_INSTALLED:
            continue
        assert found == RECORDED[name], name
        assert said(error) == LINES[name]


@pytest.mark.long
def test_a_larger_share_of_the_pairs_and_of_the_kinds_alone():
    assert not differing(share(LONG))


@pytest.mark.long
def test_a_check_refuses_a_scenario_and_accepts_its_neighbour():
    for name, values in of_checks().items():
        if zlib.crc32(name.removesuffix(", nearest").encode()) % LONG_CHECKS:
            continue
        error = refusal(values)
        assert answer_of(error) == RECORDED[name], f"{name}: {error}"
        assert (error is None) == name.endswith(", nearest"), name
        assert error is None or said(error) == LINES[name]


def test_every_noun_has_a_meaning():
    spoken = re.compile(r"Reason\(\s*(?:f?\"([a-z_]+)\")")
    files = ROOT.rglob("*.py")
    assert {noun for file in files for noun in spoken.findall(file.read_text())} <= NOUNS.keys()


def test_what_is_recorded_of_kinds_is_what_they_say():
    alone = alone_of_kinds.traits_alone()
    alone["fedsim"] = {"nouns": NOUNS, **alone["fedsim"]}
    for home, folder in homes().items():
        assert json.loads((folder / alone_of_kinds.FILE).read_text()) == alone[home], home


# Features that are a kind or a section, by the names that these have in `traits.json`.
KIND_OF = {
    "a graph": ("topology", "ring"),
    "edges": ("topology", "hierarchical"),
    "clusters": ("client", "ifca"),
    "pooled samples": ("client", "centralised"),
    "nothing sent": ("client", "local_only"),
    "fedbuff": ("timetable", "fedbuff"),
    "privacy": ("section", "privacy"),
    "dp_sgd": ("section", "client.dp_sgd"),
    "secure_aggregation": ("codec", "secure_aggregation"),
    "a linear codec": ("codec", "count_sketch"),
    "a codec with memory": ("codec", "lazy"),
    "a broadcast": ("section", "broadcast"),
    "widths": ("section", "client.width"),
    "carried optimizers": ("section", "client.optimizer_state"),
    "a rule of rows": ("rule", "krum"),
    "a rule with memory": ("rule", "mifa"),
    "a rule by losses": ("rule", "term"),
    "diagnostics": ("section", "evaluate.diagnostics"),
    "kept updates": ("section", "checkpoint.updates"),
    "numbers as targets": ("section", "data with numbers as targets"),
}


@if_all_installed
def test_what_does_not_go_together_alone_is_refused_in_a_scenario():
    traits_of = fits.traits()
    told = 0
    for name, (verdict, _) in RECORDED.items():
        one, _, feature = name.partition(" + ")
        family, _, kind = one.partition(" ")
        if feature in KIND_OF and kind in traits_of.get(family, {}):
            other, partner = KIND_OF[feature]
            if fits.refusal(traits_of[family][kind], traits_of[other][partner]):
                told += 1
                assert verdict == "2", name
    assert told > 500
