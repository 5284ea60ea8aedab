"""Which accountant counts: what a run says of it, and what dp-accounting says of the same run."""

import itertools
import json
import math
import sys

import pytest
from conftest import some
from test_private_runs import SCENARIO

import fedsim
from fedsim.fields.privacy import budget
from fedsim.fields.privacy.accountants import accountant_of, entries
from fedsim.fields.privacy.counting import losses
from fedsim.fields.privacy.counting.accountant import by_dp_accounting, spending
from fedsim.fields.privacy.counting.records import Mechanism
from fedsim.fields.privacy.counting.samples import sample_epsilon_after
from fedsim.fields.privacy.keys import Privacy
from fedsim.fields.privacy.mark import mark
from fedsim.fleet.sampling import Sampling
from fedsim.report.page.setting import setting
from fedsim.runs.derive import page_of_runs

dp = pytest.importorskip("dp_accounting")

SAMPLED = [(Mechanism(), Sampling("poisson", rate=rate)) for rate in (0.001, 0.01, 0.1, 0.5)]
SAMPLED += [(Mechanism("banded", bands=3), Sampling("cyclic_poisson", groups=4, rate=0.2))]
KNOWN = [
    (Mechanism(), Sampling("all")),
    (Mechanism("tree"), Sampling("separated", size=5, gap=10, most=4)),
    (Mechanism("banded", bands=8), Sampling("cyclic", size=5)),
]
NUMBERS = [(0.5, 1.0, 4.0), (1e-4, 1e-6, 1e-9), (1, 20, 500)]  # noise multiplier, δ, rounds
COUNTS = (spending, by_dp_accounting)


def private(**keys) -> Privacy:
    return Privacy.model_construct(clip=1.0, **{"mechanism": Mechanism(), **keys})


@pytest.mark.long
@pytest.mark.parametrize(("cases", "far"), [(SAMPLED, 5e-6), (KNOWN, 1e-9)])
def test_dp_accounting_says_the_same_of_every_sampler_noise_delta_and_rounds(cases, far):
    for (mechanism, sampling), z, delta, rounds in some(itertools.product(cases, *NUMBERS), 13):
        section = private(delta=delta, noise_multiplier=z, mechanism=mechanism)
        spent = [count(section, sampling, clients=100, rounds=rounds) for count in COUNTS]
        ours, theirs = (epsilon_after(rounds) for epsilon_after in spent)
        assert abs(ours - theirs) < far * (1 + theirs), (sampling, z, delta, rounds)


def test_of_divergences_there_is_nothing_to_count_again():
    section = private(delta=1e-5, noise_multiplier=1.0, accountant="rdp")
    assert by_dp_accounting(section, Sampling("all"), clients=9, rounds=3) is None


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


@pytest.mark.parametrize(
    ("columns", "sections", "unit"),
    [
        (["epsilon"], {}, "one client."),
        ([], {"client": {"dp_sgd": {"clip": 1}}}, "one sample of one client."),
        ([], {"wire": [{"kind": "local_laplace"}]}, "what one client sends in a round."),
    ],
)
def test_whatever_is_private_is_marked(columns, sections, unit):
    scenario = {"client": {}, "numerics": {"dtype": "float32"}}
    assert mark(columns, {**scenario, **sections}).endswith(f"Neighbouring data differ in {unit}")
    assert mark([], scenario) == ""


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


# ------------------------------------------- ε of a client's own samples, whose batches may be cut


def of_samples(steps=20, z=4.0, **keys):
    given = {"samples": 100, "rate": 0.05, "cap": 100, "delta": 1e-5, **keys}
    return sample_epsilon_after(steps, noise_multiplier=z, **given)


def test_a_cap_that_no_batch_reaches_changes_nothing():
    assert of_samples() == pytest.approx(losses.epsilon_after(4.0, 0.05, 1e-5, 20), rel=1e-4)


@pytest.mark.long
@pytest.mark.parametrize(("cap", "rate"), [(18, 0.05), (11, 0.02), (40, 1.0), (100, 1.0)])
def test_epsilon_is_that_of_the_event_never_below_and_hardly_above(cap, rate):
    """With a cap that hardly any batch reaches, one that some do, and batches of all samples."""
    samples = 100 if cap < 100 else 30
    accountant = dp.pld.PLDAccountant(value_discretization_interval=1e-3)
    accountant.compose(dp.TruncatedSubsampledGaussianDpEvent(samples, rate, cap, 6.0), 20)
    spent = of_samples(z=6.0, samples=samples, rate=rate, cap=cap)
    wanted = accountant.get_epsilon(1e-5)
    assert wanted * (1 - 1e-4) <= spent <= wanted * (1 + 2e-3)


def test_no_steps_spend_nothing_and_no_noise_everything():
    assert of_samples(steps=0) == 0.0 and of_samples(z=0.0) == math.inf
