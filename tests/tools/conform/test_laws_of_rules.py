"""Which laws of stacks every registered rule keeps, by its line in the table of `test_rules`."""

import pytest
from test_rules import TABLE, K, every_rule, rule

from fedsim.kinds import FAMILIES
from fedsim.tools.conform import rules as laws
from fedsim.tools.conform.rows import stacks


def gap(law, name):
    """The numbers in which a law differs on the first stack that breaks it; None if none does."""
    made = FAMILIES["rule"][name](**TABLE[name].link)
    play = laws.as_play(rule(name), made.needs)
    for stack in stacks(0, max(made.least, 1), made.most):
        if stack.reports.sum() < (laws.K if TABLE[name].population else K):
            continue  # fewer than the table is about
        found = law(play, stack)
        if found is not None:
            return found
    return None


@pytest.mark.quick(24)
@every_rule
def test_order_of_clients_is_of_no_interest(name):
    assert (gap(laws.permutation, name) is not None) is TABLE[name].ordered


@pytest.mark.long
@every_rule
@pytest.mark.parametrize("law", [laws.translation, laws.scale])
def test_translation_and_positive_scale(name, law):
    promised = TABLE[name]
    moves = law is laws.translation
    if promised.angles and moves:
        pytest.skip("may come out either way")
    keeps = promised.equivariant or (promised.shifts if moves else promised.scales)
    assert (gap(law, name) is None) is bool(keeps)


@pytest.mark.quick(24)
@every_rule
def test_unanimous_clients_are_believed(name):
    assert (gap(laws.equal_rows, name) is None) is TABLE[name].unanimous
