"""`fedsim explain rules`: what it claims is what the kept runs say.

`PYTHONPATH=tests python tests/rules/test_guide.py` writes its numbers.
"""

import csv
import io

import pandas as pd
import pytest
from click.testing import CliRunner
from conftest import ROOT, if_all_installed, own_kinds_of

from fedsim.cli import cli
from fedsim.scenario.explain import explanations
from fedsim.scenario.guide import MEASURED, guide
from fedsim.study.statistics import half_width_of
from fedsim.study.summary import larger_is_better

REPORTS, FILE = ROOT / "reports", ROOT / "fedsim/rules/guide.csv"
ALIKE, DIFFERENT = "data.partition.alpha=100", "data.partition.alpha=1"
SHOWN = [claim for line in guide()["lines"] for claim in line["shown"]]


def numbers() -> str:
    """guide.csv, from the kept runs."""
    worst_case = pd.read_csv(REPORTS / "worst_case" / "worst.csv")
    worst = worst_case.set_index(["method", "variant"])["mean"]
    falls = pd.read_csv(REPORTS / "breakdown" / "breakdown.csv").groupby("method")["falls"].min()
    text = lambda value, form: "" if value is None or value != value else format(value, form)
    out = io.StringIO()
    writer = csv.DictWriter(out, MEASURED, lineterminator="\n")
    writer.writeheader()
    for method in sorted({name for name, _ in worst.index} | set(falls.index)):
        values = (worst.get((method, ALIKE)), worst.get((method, DIFFERENT)), falls.get(method))
        row = (method, *map(text, values, (".2f", ".2f", "g")))
        writer.writerow(dict(zip(MEASURED, row, strict=True)))
    return out.getvalue()


def test_numbers_are_those_of_the_kept_runs():
    remedy = "PYTHONPATH=tests python tests/rules/test_guide.py writes it"
    assert FILE.read_text() == numbers(), remedy


@pytest.mark.parametrize(
    "claim",
    SHOWN,
    ids=lambda claim: f"{claim['more']} over {claim['less']}, {claim['variation'][:40]}",
)
def test_what_a_line_rests_on_is_what_a_kept_run_shows(claim):
    kept = pd.read_csv(REPORTS / claim["run"] / "compare.csv")
    table = kept.query("variant == @claim['variation']").set_index("method")
    more, less = (table.loc[claim[side]] for side in ("more", "less"))
    sign = 1 if larger_is_better(more["metric"]) else -1
    room = half_width_of(more["sd"], more["seeds"]) + half_width_of(less["sd"], less["seeds"])
    assert sign * (more["mean"] - less["mean"]) > room


@if_all_installed
def test_every_rule_of_ours_has_a_line_and_the_command_prints_it():
    (explained,) = explanations("rules")
    entries = explained["entries"]
    assert entries.keys() == own_kinds_of("rule").keys()
    assert all("resists" in text and "costs" in text for text in entries.values())
    assert "is given f" in entries["krum"] and "is given" not in entries["median"]
    assert "keeps" in entries["median"]
    printed = CliRunner().invoke(cli, ["explain", "rules"]).output
    assert "Nobody attacks: `mean`" in printed and "multi_krum: resists" in printed


if __name__ == "__main__":
    FILE.write_text(numbers())
