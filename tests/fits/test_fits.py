"""Every combination of kinds and sections has the verdict, and the places, that are recorded."""

import zlib
from typing import Any

import pytest
from conftest import WHOLE

from tests.fits.combinations import (
    NOT_INSTALLED,
    Values,
    alone,
    answer,
    cases,
    loaded,
    of_checks,
    pairs,
    recorded,
)
from tests.fits.sites import reached, sites

FAST = 160  # of the pairs, one in so many is in the fast part
LONG = 1 if WHOLE else 12  # and one in so many in the long part
SLOW = {"resnet", "transformer"}  # models that take long to trace
RECORDED = recorded()


def differing(scenarios: dict[str, Values]) -> dict[str, Any]:
    """Return name -> the recorded answer and today's, where they differ."""
    answers = {name: answer(values) for name, values in scenarios.items()}
    answers = {name: found for name, found in answers.items() if found != NOT_INSTALLED}
    wanted = {name: RECORDED.get(name) for name in scenarios}
    return {name: (wanted[name], found) for name, found in answers.items() if found != wanted[name]}


def share(n: int) -> dict[str, Values]:
    """One in n of the pairs, always the same ones."""
    return {name: values for name, values in pairs().items() if zlib.crc32(name.encode()) % n == 0}


def first_of_every_check() -> dict[str, Values]:
    """The first scenario that every check refuses."""
    firsts: dict[str, tuple[str, Values]] = {}
    for name, values in of_checks().items():
        if values["model"]["kind"] not in SLOW:
            firsts.setdefault(name.partition(":")[0], (name, values))
    return dict(firsts.values())


def test_the_table_has_a_row_for_every_case():
    assert set(RECORDED) == set(cases())


def test_everything_is_accepted_alone():
    assert {RECORDED[name] for name in alone()} == {("accepted", "")}


def test_some_pairs_and_a_refusal_of_every_check():
    assert not differing(share(FAST) | first_of_every_check())


@pytest.mark.long
def test_all_kinds_and_a_share_of_the_pairs():
    assert not differing(alone() | share(LONG))


@pytest.mark.long
def test_every_check_refuses_a_scenario_and_accepts_its_nearest_neighbour():
    places = sites()
    untripped = set(places.values())
    for name, values in of_checks().items():
        found, lines = reached(values)
        tripped = {places[line] for line in lines & places.keys()}
        untripped -= tripped
        assert found == RECORDED[name], name
        if name.endswith(", nearest"):
            assert found == ("accepted", "") and not tripped, name
        else:
            assert name.partition(":")[0] in {site.function for site in tripped}, name
    reasons = loaded("beyond.yaml")
    assert {f"{site.function} {site.number}" for site in untripped} == reasons.keys()
