"""What ε does not cover is refused: the key, the reason, and what to do."""

import pytest

import fedsim
from fedsim.errors import ScenarioError

SCENARIO = {
    "name": "private",
    "rounds": 2,
    "data": {"kind": "gaussian_blobs", "samples": 300, "clients": 20},
    "cohort": {"kind": "poisson", "rate": 0.3},
    "privacy": {"clip": 0.2, "noise_multiplier": 1.0, "delta": 1e-5},
}
UNIFORM = {"cohort": {"kind": "uniform", "size": 3}}
RDP = {**SCENARIO["privacy"], "accountant": "rdp"}
TOP = {"kind": "top_k", "k": 3}
REFUSED = {
    "neither z nor epsilon": (
        {"privacy": {"clip": 0.2, "delta": 1e-5}},
        "privacy: needs noise_multiplier, or an epsilon that it is solved for; write one of them",
    ),
    "both": (
        {"privacy": {**SCENARIO["privacy"], "epsilon": 3.0}},
        "privacy.noise_multiplier: is 1, and epsilon 3 asks for another over 2 rounds; "
        "remove one of the two",
    ),
    "no delta": (
        {"privacy": {"clip": 0.2, "noise_multiplier": 1.0}},
        "privacy.delta: is missing; write delta:",
    ),
    "a delta of 1": (
        {"privacy": {**SCENARIO["privacy"], "delta": 1.0}},
        "privacy.delta: should be a number from 1e-12 to 0.5",
    ),
    "no clip": (
        {"privacy": {"noise_multiplier": 1.0, "delta": 1e-5}},
        "privacy.clip: is missing",
    ),
    "weights by samples": (
        {"server": [{"kind": "mean", "weights": "samples"}]},
        "server[0].weights: is samples, and a client's weight would depend on its data; "
        "write uniform",
    ),
    "a denominator of who came": (
        {"server": [{"kind": "mean", "denominator": "actual"}]},
        "server[0].denominator: is actual",
    ),
    "a rule that is no mean": ({"server": ["median"]}, "server[0]: median is no mean"),
    "compression with a memory": (
        {"wire": [{"kind": "error_feedback", "codec": TOP}]},
        "wire[0]: error_feedback remembers one message of every client, and epsilon does not cover",
    ),
    "sketches": (
        {"wire": [{"kind": "count_sketch", "rows": 3, "columns": 20}]},
        "wire[0]: count_sketch sends payloads, which are decoded as a sum behind the rule, and "
        "privacy clips every update before the sum",
    ),
    "a stage that mixes rows": (
        {"server": [{"kind": "mix_neighbours", "f": 1}, "mean"]},
        "server[0]: mix_neighbours sees all updates, so that one client moves several",
    ),
    "a bound that learns without noise": (
        {"server": ["adaptive_clip", "mean"]},
        "server[0]: adaptive_clip learns from all updates without noise",
    ),
    "variables beside the update": (
        {"method": "scaffold"},
        "client.kind: scaffold makes its shared c of more than the mean, and privacy adds noise to",
    ),
    "a reducer": ({"method": "fedcm"}, "client.kind: fedcm makes its shared d of more than"),
    "a pass before training": (
        {"method": "mime"},
        "client.kind: mime sends a gradient at the shared model first",
    ),
    "nothing that is sent": ({"method": "local_only"}, "local_only is a baseline whose"),
    "statistics": (
        {
            "data": {"kind": "digits", "clients": 20},
            "model": {"kind": "resnet", "depth": 8, "norm": "batch"},
        },
        "model: clients send batch statistics of resnet as well, and privacy adds noise to",
    ),
    "an asynchronous server": ({"schedule": "fedbuff"}, "schedule: fedbuff lets clients"),
    "drawn by samples": (
        {"cohort": {"kind": "weighted", "size": 3}},
        "cohort: weighted draws clients in a way that no accountant knows, and epsilon is counted "
        "for rounds of a cohort; use a cohort such as all, poisson or uniform",
    ),
    "drawn by losses": (
        {"cohort": {"kind": "power_of_choice", "size": 3, "candidates": 6}},
        "cohort: power_of_choice draws clients in a way that no accountant knows",
    ),
    "a list": ({"cohort": {"kind": "listed", "rounds": [[1]]}}, "cohort: listed draws"),
    "uniform by pld": (UNIFORM, "privacy.accountant: pld knows no samples of a fixed size"),
    "uniform under availability": (
        {**UNIFORM, "privacy": RDP, "fleet": {"availability": "bernoulli"}},
        "fleet.availability: uniform draws its size among fewer clients",
    ),
    "availability by labels": (
        {"fleet": {"availability": "label_dependent"}},
        "fleet.availability: under label_dependent, who can be reached depends on samples",
    ),
    "availability by sizes": (
        {"fleet": {"availability": "size_dependent"}},
        "fleet.availability: under size_dependent, who can be reached depends on samples",
    ),
    "a deadline": ({"fleet": {"deadline": 3.0}}, "fleet.deadline: who is late depends on sizes"),
    "over-selection": (
        {**UNIFORM, "privacy": RDP, "fleet": {"over_select": 1.5}},
        "fleet.over_select: who counts depends on who else came",
    ),
    "stragglers": (
        {"fleet": {"stragglers": {"share": 0.5, "work": "drop"}}},
        "fleet.stragglers: who is slow depends on who else came",
    ),
    "messages without bound": ({"on_nonfinite": "keep"}, "on_nonfinite: keep makes the run"),
    "a count that spends all": (
        {"privacy": {**SCENARIO["privacy"], "clip": {"kind": "adaptive"}}},
        "privacy.clip.count_std: the count of clipped updates with noise 0.3 alone spends more",
    ),
    "an unknown mechanism": (
        {"privacy": {**SCENARIO["privacy"], "mechanism": "laplace"}},
        "privacy.mechanism: no mechanism 'laplace'",
    ),
}
LOCAL = {"kind": "local_gaussian", "norm": 1.0, "epsilon": 1.0, "delta": 1e-5}
NO_CENTRE = {"privacy": None, "wire": [LOCAL]}
REFUSED |= {
    "local noise behind the wire": (
        {**NO_CENTRE, "wire": [], "server": [LOCAL, "mean"]},
        "server[0]: local_gaussian is noise of the clients, and behind the wire it protects",
    ),
    "local noise behind a codec": (
        {**NO_CENTRE, "wire": [TOP, LOCAL]},
        "wire[1]: what top_k encodes is noised first; move local_gaussian before it",
    ),
    "variables beside local noise": (
        {**NO_CENTRE, "method": "scaffold"},
        "wire[0]: local_gaussian noises the update alone, and scaffold sends c as well",
    ),
    "losses beside local noise": (
        {**NO_CENTRE, "method": "qfedavg"},
        "wire[0]: local_gaussian noises the update alone, and clients send q_fair their loss",
    ),
    "the classic noise above epsilon 1": (
        {**NO_CENTRE, "wire": [{**LOCAL, "epsilon": 3.0, "calibration": "classic"}]},
        "wire[0]: local_gaussian: classic holds up to epsilon 1, and epsilon is 3",
    ),
}
QUICK = ("both", "weights by samples", "variables beside the update", "statistics")


@pytest.mark.parametrize(
    "case", [c if c in QUICK else pytest.param(c, marks=pytest.mark.long) for c in REFUSED]
)
def test_what_epsilon_does_not_cover_is_refused(case):
    changes, text = REFUSED[case]
    with pytest.raises(ScenarioError) as error:
        fedsim.run({**SCENARIO, **changes})
    assert text in str(error.value)


ALLOWED = {
    "a codec by row": {"wire": [TOP]},
    "an attack by row": {"wire": ["sign_flip"], "fleet": {"malicious": 0.2}},
    "a stage by row": {"server": [{"kind": "clip", "norm": 0.1}, "mean"]},
    "steps and optimisers behind the noise": {
        "server": ["mean", {"kind": "aggregate_noise", "std": 0.1}, {"kind": "adam", "lr": 0.1}]
    },
    "availability of chance": {"fleet": {"availability": "markov", "dropout": 0.2}},
    "uniform by rdp": {**UNIFORM, "privacy": RDP},
    "a proximal term": {"method": "fedprox"},
    "everybody": {"cohort": "all"},
}


@pytest.mark.long
@pytest.mark.parametrize("case", ALLOWED)
def test_what_is_one_row_or_comes_behind_the_noise_is_allowed(case):
    result = fedsim.run({**SCENARIO, **ALLOWED[case]})
    assert result.rounds["epsilon"].iloc[-1] > 0
