"""Every integer has a bound: in its annotation, or by arithmetic on what it would make."""

import json
import os
import subprocess
import sys
from typing import Annotated

import pytest
from annotated_types import Ge
from conftest import TESTS, WHOLE, if_all_installed
from hostile.integers import Integer, integers
from hostile.reasons import SEED, reasons

import fedsim
from fedsim.kinds import FAMILIES


def ours(integer: Integer) -> bool:
    """Whether it is fedsim's own, and not of a kind that another file of tests defines."""
    known = FAMILIES.get(integer.family, {}).get(integer.kind)
    return known is None or known.__module__.startswith("fedsim.")


ALL = list(filter(ours, integers()))


def unbounded(known: list[Integer]) -> set[str]:
    """Places of integers that have neither a bound nor a reason to need none."""
    return {integer.place for integer in known if integer.most is None} - reasons().keys()


def test_every_integer_has_a_bound_or_a_reason():
    assert len(ALL) > 100 and not unbounded(ALL)


@if_all_installed
def test_reasons_belong_to_existing_integers_without_a_bound():
    open_ended = {integer.place for integer in ALL if integer.most is None}
    assert reasons().keys() <= open_ended
    assert {place.rpartition(".")[2] for place, reason in reasons().items() if reason == SEED} == {
        "seed",
        "seeds",
    }


def test_a_new_kind_without_a_bound_is_noticed():
    before = unbounded(integers())  # of other tests' kinds

    @fedsim.skew
    def turned_often(times: Annotated[int, Ge(1)] = 2):
        """Turn images so many times."""

    try:
        assert unbounded(integers()) - before == {"skew: turned_often.times"}
    finally:
        del FAMILIES["skew"]["turned_often"]


# Those of data sets take as long as all others together.
PLAYED = {integer.family for integer in ALL} - ({"dataset"} if not WHOLE else set())


@pytest.mark.long
@pytest.mark.share(24)
@pytest.mark.parametrize("family", sorted(PLAYED))
def test_absurd_integers_are_refused_or_harmless(family):
    """Each at 2·10⁹, 2⁶³, −1 and its bound: read, built and, if it has no own bound, run."""
    tests = TESTS
    environment = {
        **os.environ,
        "PYTHONPATH": f"{tests.parent}{os.pathsep}{os.environ.get('PYTHONPATH', '')}",
    }
    words = [sys.executable, "-m", "hostile.integers", family]
    done = subprocess.run(words, cwd=tests, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, f"died at {done.stderr.splitlines()[-1]}"
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert not lines[:-1], "\n".join(f"{line['case']}: {line['what']}" for line in lines[:-1])
    assert lines[-1]["right"] >= 3
