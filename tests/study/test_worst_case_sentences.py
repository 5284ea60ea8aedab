"""The best method under its worst attack is named where that is significant."""

from test_worst_case import summary

from fedsim.study.attack_findings import worst_case_findings
from fedsim.study.findings import findings_of
from fedsim.study.worst_case import worst_cases


def found_in(rows):
    worst = worst_cases(rows, "final")
    tables = {"compare": [], "summary": rows, "worst": worst}
    (found,) = worst_case_findings(findings_of(tables, "a"))
    return found


def test_the_best_method_under_its_worst_attack_is_named():
    """Under the variation that is asked about, which is the last one."""
    found = found_in(summary())
    assert found.text == "Under the worst of 2 attacks, b beats both others"
    assert found.where == "α = 0.1"
    assert found.numbers.startswith("test accuracy 0.550 with b (gaussian")
    assert found.numbers.endswith("; p < 0.05 after Holm")
    assert {(claim.who, claim.whom) for claim in found.claims} == {("b", "a"), ("b", "c")}


def test_without_significance_nobody_is_named():
    """12 / 2**7 is too much, whatever the scores are."""
    found = found_in(summary(seeds=7))
    few = "7 seeds are too few, 8 would do"
    assert found.text == f"No clear difference under 2 attacks: {few}" and not found.claims
