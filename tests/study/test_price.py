"""The headline where the baseline never changes: what the others lose to it."""

import pytest
from conftest import if_all_installed, if_whole

import fedsim
from fedsim.study.claims import BETTER
from fedsim.study.findings import findings_of
from fedsim.study.headline import headline
from fedsim.study.pairing import against

SEEDS = range(8)
AXIS = "privacy.epsilon"


def findings(scores: dict[str, dict[str, float]]):
    """Of mean scores by method and ε; seeds differ by hundredths."""
    summary = []
    for method, by_value in scores.items():
        for value, mean in by_value.items():
            for seed in SEEDS:
                row = {"method": method, "variant": f"{AXIS}={value}", AXIS: value, "seed": seed}
                spread = 0.01 * seed * (method != "plain")
                score = {"metric": "test_accuracy", "final": mean + spread, "diverged": 0}
                summary.append({**row, **score})
    tables = {"summary": summary, "compare": against(summary, "plain", "final", [AXIS])}
    return findings_of(tables, "plain")


@if_all_installed
def test_it_says_what_the_best_of_the_others_lose():
    flat = {"1": 0.95, "4": 0.95, "8": 0.95}
    rising = {"1": 0.5, "4": 0.7, "8": 0.8}
    lower = {"1": 0.55, "4": 0.6, "8": 0.6}
    found = headline(findings({"plain": flat, "a": rising, "b": lower}))
    assert found.startswith(
        "plain, the baseline, has the best mean in all 3 variations, test accuracy 0.950: "
        "with ε 1, b comes next, 0.365 worse (95 % CI 0.345 to 0.385; p = "
    )
    assert "; with ε 8, a comes next, 0.115 worse (95 % CI 0.0945 to 0.135; p = " in found
    assert [claim.who for claim in found.claims if claim.kind == BETTER] == ["b", "a"]


@pytest.mark.parametrize(
    "plain", [{"1": 0.95, "4": 0.96}, {"1": 0.6, "4": 0.6}], ids=["it changes", "it is passed"]
)
def test_otherwise_it_says_who_leads(plain):
    found = headline(findings({"plain": plain, "a": {"1": 0.5, "4": 0.7}}))
    assert "comes next" not in found and "leads with" in found


@if_whole
@pytest.mark.long
def test_privacy_has_a_price():
    """A baseline without privacy has equal scores for every ε."""
    scenario = {
        "name": "price",
        "rounds": 3,
        "seeds": 2,
        "data": {"kind": "gaussian_blobs", "samples": 600, "clients": 100},
        "privacy": {"clip": 0.1, "epsilon": 1.0, "delta": 1e-3},
    }
    free = {"method": "fedavg", "label": "no privacy", "set": {"privacy": None}}
    axis = {AXIS: [0.1, 0.2, 0.3]}
    compared = fedsim.compare(scenario, [free, "fedavg"], vary=axis, baseline="no privacy")
    assert compared.verdict[0].startswith("no privacy, the baseline, has the best mean in all 3")
