"""A run and its page say which accountant counted its ε, and `verify` counts it again."""

import json
import sys

import pytest
from test_private_runs import SCENARIO

import fedsim
from fedsim.fields.privacy import budget
from fedsim.fields.privacy.accountants import accountant_of, entries
from fedsim.fields.privacy.counting.accountant import by_dp_accounting
from fedsim.report.page.setting import setting
from fedsim.runs.derive import page_of_runs

pytest.importorskip("dp_accounting")

RDP = {"accountant": "rdp"}
SHARES = {**RDP, "mechanism": {"kind": "distributed_skellam"}}


@pytest.mark.parametrize(
    ("privacy", "cohort", "name"),
    [
        ({}, {"kind": "poisson", "rate": 0.3}, "fedsim: privacy loss distribution"),
        ({}, {"kind": "poisson", "rate": 1.0}, "fedsim: one Gaussian release, exactly"),
        ({}, {"kind": "all"}, "fedsim: one Gaussian release, exactly"),
        (RDP, {"kind": "all"}, "dp-accounting: Rényi divergences"),
        (SHARES, {"kind": "all"}, "fedsim: Rényi divergences of sums of integers"),
    ],
)
def test_an_accountant_has_a_name(privacy, cohort, name):
    section = {"accountant": "pld", "mechanism": {"kind": "gaussian"}, **privacy}
    assert accountant_of({"privacy": section, "cohort": cohort}) == name


def test_only_private_runs_have_one():
    assert entries({"client": {}, "privacy": None}) == {}
    assert list(entries({"client": {"dp_sgd": {"clip": 1}}})) == ["samples_accountant"]


@pytest.fixture(scope="module")
def ended(tmp_path_factory):
    folder = tmp_path_factory.mktemp("private") / "run"
    fedsim.run(SCENARIO, out=folder)
    return folder


def test_a_run_and_its_page_say_who_counted(ended):
    name = "fedsim: privacy loss distribution"
    record = json.loads((ended / "run.json").read_text())
    assert record["accountant"] == name
    assert ("ε counted by", name) in setting(record)["steps"]
    assert b"Privacy is simulated, not for release" in page_of_runs([ended])


def test_verify_counts_again(ended, monkeypatch):
    (check,) = [check for check in fedsim.verify(ended).checks if check.name == "epsilon"]
    assert check.ok and "after round 4, by dp-accounting" in check.detail
    wrong = lambda *given, **keys: lambda t: by_dp_accounting(*given, **keys)(t) * 1.001
    monkeypatch.setattr(budget, "by_dp_accounting", wrong)
    result = fedsim.verify(ended)
    assert result.wrong and [check.name for check in result.checks if not check.ok] == ["epsilon"]


def test_without_the_accountant_a_run_is_not_wrong_but_cannot_be_checked(ended, monkeypatch):
    monkeypatch.setitem(sys.modules, "dp_accounting", None)
    result = fedsim.verify(ended)
    assert not result.equal and not result.wrong
    assert result.checks[-1].detail.startswith("privacy: needs dp-accounting")
