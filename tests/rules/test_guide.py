"""`fedsim explain rules`: what it claims is what the kept runs say.

`PYTHONPATH=tests python tests/rules/test_guide.py` writes its numbers.
"""

import csv
import io

import pandas as pd
import pytest
from click.testing import CliRunner
from conftest import ROOT, if_all_installed

from fedsim.cli import cli
from fedsim.compose import FAMILIES
from fedsim.kinds.shipped import home_of
from fedsim.scenario.explain import explanations
from fedsim.scenario.guide import MEASURED, guide
from fedsim.study.statistics import half_width_of
from fedsim.study.summary import larger_is_better

REPORTS, FILE = ROOT / "reports", ROOT / "fedsim/rules/guide.csv"
ALIKE, DIFFERENT = "data.partition.alpha=100", "data.partition.alpha=1"
SHOWN = [claim for line in guide()["lines"] for claim in line["shown"]]


def numbers() -> str:
    """guide.csv, from the kept runs."""
    worst = pd.read_csv(REPORTS / "worst_case" / "worst.csv").set_index(["method", "variant"])[
        "mean"
    ]
    falls = pd.read_csv(REPORTS / "breakdown" / "breakdown.csv").groupby("method")["falls"].min()
    text = lambda value, form: "" if value is None or value != value else format(value, form)
    out = io.StringIO()
    writer = csv.DictWriter(out, MEASURED, lineterminator="\n")
    writer.writeheader()
    for method in sorted({name for name, _ in worst.index} | set(falls.index)):
        values = (worst.get((method, ALIKE)), worst.get((method, DIFFERENT)), falls.get(method))
        writer.writerow(
            dict(zip(MEASURED, (method, *map(text, values, (".2f", ".2f", "g"))), strict=True))
        )
    return out.getvalue()


def test_numbers_are_those_of_the_kept_runs():
    assert FILE.read_text() == numbers(), (
        "PYTHONPATH=tests python tests/rules/test_guide.py writes it"
    )


@pytest.mark.parametrize(
    "claim",
    SHOWN,
    ids=lambda claim: f"{claim['more']} over {claim['less']}, {claim['variation'][:40]}",
)
def test_what_a_line_rests_on_is_what_a_kept_run_shows(claim):
    table = (
        pd.read_csv(REPORTS / claim["run"] / "compare.csv")
        .query("variant == @claim['variation']")
        .set_index("method")
    )
    more, less = (table.loc[claim[side]] for side in ("more", "less"))
    sign = 1 if larger_is_better(more["metric"]) else -1
    room = half_width_of(more["sd"], more["seeds"]) + half_width_of(less["sd"], less["seeds"])
    assert sign * (more["mean"] - less["mean"]) > room


def test_what_the_literature_says_comes_out():
    """Of scenarios/robust/known_results.yaml, kept."""
    table = pd.read_csv(ROOT / "reports/known_results/compare.csv").set_index(
        ["method", "variant"]
    )["mean"]
    alike, different = (
        "data.partition=iid",
        "data.partition={kind: dirichlet, alpha: 0.1, min_samples: 5}",
    )
    attacks = {
        "none": "[]",
        "flip": "[{kind: sign_flip, scale: 5}]",
        "alie": "[{kind: little_is_enough, z: 1}]",
    }
    score = lambda method, data, attack: table[method, f"{data}, wire={attacks[attack]}"]
    assert score("mean", alike, "flip") < 0.2 and score("median", alike, "flip") > 0.75
    for method in ("median", "krum(f=4)"):
        assert score(method, different, "none") < score(method, alike, "none") - 0.15
        assert score(method, different, "flip") < score(method, different, "none") + 0.01
    for mixed, plain in (
        ("mixed median", "median"),
        ("mixed krum", "krum(f=4)"),
        ("bucketed median", "median"),
    ):
        assert all(
            score(mixed, data, "flip") > score(plain, data, "flip") + 0.05
            for data in (alike, different)
        )
    assert score("krum(f=4)", alike, "alie") < score("krum(f=4)", alike, "flip") - 0.05
    success = pd.read_csv(ROOT / "reports/backdoor_rules/compare.csv").set_index(
        ["method", "variant"]
    )["mean"]
    boosted = lambda method: success[method, "wire=[model_replacement]"]
    assert boosted("mean") > 0.9 and boosted("clipped mean") < 0.2


@if_all_installed
def test_every_rule_of_ours_has_a_line():
    (explained,) = explanations("rules")
    ours = {name for name, f in FAMILIES["rule"].items() if home_of(f) is not None}
    assert set(explained["entries"]) == ours
    assert all("resists" in text and "costs" in text for text in explained["entries"].values())
    assert (
        "is given f" in explained["entries"]["krum"]
        and "is given" not in explained["entries"]["median"]
    )
    assert "keeps" in explained["entries"]["median"]


def test_the_command_prints_advice_and_rules():
    printed = CliRunner().invoke(cli, ["explain", "rules"]).output
    assert "Nobody attacks: `mean`" in printed and "multi_krum: resists" in printed


if __name__ == "__main__":
    FILE.write_text(numbers())
