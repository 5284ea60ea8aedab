"""Every method on every shipped scenario and every fleet either runs two rounds or is refused.

    python tests/clients/test_every_method.py     # rewrites METHODS.csv

A cell of METHODS.csv is `runs`, or the refusal. Refusals come before anything is compiled, so all
of them are checked. Of the cells that run, one is played for every second light scenario
(test_methods plays each client method) and two for each fleet; FEDSIM_WHOLE=1 plays all of them.
"""

import csv

import pytest
from conftest import ROOT, TESTS, WHOLE, if_all_installed, shipped, some

import fedsim
import fedsim.scenario.methods
from fedsim.assemble.experiment import build, numerics
from fedsim.compose import FAMILIES
from fedsim.errors import ScenarioError
from fedsim.scenario import read

TABLE = TESTS / "METHODS.csv"
SCENARIOS = [str(path.relative_to(ROOT / "scenarios")) for path in shipped()]
METHODS = sorted(
    name for name, factory in FAMILIES["method"].items() if factory.__module__.startswith("fedsim.")
)
SMALL = (
    "data.clients=30",
    "model={kind: mlp, hidden: [8]}",
    "client.epochs=2",
    "evaluate.target=null",
)
FLEETS = {  # column -> iid.yaml, smaller, on machines that differ
    "fleet: late": (
        "{speed: {kind: lognormal, sigma: 1.0}, deadline: 12.0, partial_work: true,"
        " over_select: 1.5}"
    ),
    "fleet: missing": (
        "{availability: {kind: diurnal, period: 40.0},"
        " dropout: {before: 0.1, during: 0.2, after: 0.1}}"
    ),
    "fleet: stragglers": "{stragglers: {share: 0.5, work: partial}}",
    "fleet: dropped stragglers": "{stragglers: {share: 0.5, work: drop}}",
    "fleet: fedbuff": "{speed: {kind: lognormal, sigma: 1.0}}",
}
COLUMNS = [*SCENARIOS, *FLEETS]
HEAVY = {"bench/w1.yaml", "bench/w3.yaml"}  # a minute each, whatever the method


def short(scenario: str, method: str):
    """Two rounds of one seed, evaluated at the end."""
    edits = ("rounds=2", "seeds=[0]", "evaluate.every=2")
    if scenario in FLEETS:
        edits += (*SMALL, f"fleet={FLEETS[scenario]}")
        edits += ("schedule={kind: fedbuff, buffer: 5, concurrency: 10}",) * (
            scenario == "fleet: fedbuff"
        )
    return read(
        ROOT / "scenarios" / ("iid.yaml" if scenario in FLEETS else scenario), edits, method
    )


def cell(scenario: str, method: str, *, play: bool) -> str:
    """Return `runs` or the refusal, after two rounds, or after the build if not `play`."""
    try:
        checked = short(scenario, method)
        if play:
            result = fedsim.run(checked)
            assert result.rounds["round"].tolist() == [0, 2] and result.status == "done"
        else:
            with numerics(checked):
                build(checked)
        return "runs"
    except ScenarioError as error:
        return "; ".join(f"{problem.where}: {problem.what}" for problem in error.problems)


def played() -> dict[str, str]:
    """Map light scenarios to the method that plays each: neighbours in the list."""
    light = some([name for name in SCENARIOS if name not in HEAVY])
    return {
        name: next(m for m in [*METHODS[4 * i :], *METHODS] if kept()[m][name] == "runs")
        for i, name in enumerate(light)
    }


def under(fleet: str) -> list[str]:
    """The methods that play a fleet unless all of them do."""
    place = list(FLEETS).index(fleet)
    return [m for i, m in enumerate(METHODS) if i % 15 == place and kept()[m][fleet] == "runs"]


def kept() -> dict[str, dict[str, str]]:
    with TABLE.open() as file:
        return {row.pop("method"): row for row in csv.DictReader(file)}


@if_all_installed
def test_the_table_has_a_cell_for_each():
    assert list(kept()) == METHODS and all(list(row) == COLUMNS for row in kept().values())


@pytest.mark.long
@pytest.mark.share(90)
@pytest.mark.parametrize("method", METHODS)
def test_a_method_does_on_every_scenario_what_the_table_says(method):
    for scenario, says in kept()[method].items():
        chosen = (
            method in under(scenario) if scenario in FLEETS else played().get(scenario) == method
        )
        play = says == "runs" and (chosen or WHOLE)
        if play or says != "runs":
            assert cell(scenario, method, play=play) == says, scenario


if __name__ == "__main__":
    with TABLE.open("w", newline="") as file:
        writer = csv.DictWriter(file, ["method", *COLUMNS], lineterminator="\n")
        writer.writeheader()
        for name in METHODS:
            writer.writerow(
                {"method": name}
                | {s: cell(s, name, play=WHOLE and s not in HEAVY) for s in COLUMNS}
            )
            file.flush()
