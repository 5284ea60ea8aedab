"""Every shipped rule, stage, attack and client method keeps the contract of its kind."""

import pytest
from conftest import GRAPH_METHODS, OF_ADAPTERS, READERS, own_kinds_of
from test_contract import DATA, written

from fedsim.assemble.check import check_scenario
from fedsim.assemble.components import links_of
from fedsim.assemble.experiment import federations_of, numerics
from fedsim.assemble.hooks import make_link, stack_shapes, training_shapes
from fedsim.compose.contract import check_client, check_rule, check_stage
from fedsim.kinds.examples import arguments_of
from fedsim.scenario import read
from fedsim.types import Rule

OURS = [
    (family, kind)
    for family in ("rule", "stage", "attack", "client")
    for kind in own_kinds_of(family)
]
PARTNERS = {"dyn": "feddyn"}
ON_THE_WIRE = ("local_gaussian", "local_laplace")  # stages that are refused behind it


@pytest.mark.quick(48)
@pytest.mark.parametrize(("family", "kind"), OURS, ids=lambda part: part)
def test_every_shipped_link_keeps_the_contract(family, kind):
    needed = arguments_of(family, kind)
    small = {"model": {"kind": "mlp", "hidden": [4]}, "data": {**DATA, "clients": 7}}
    scenario = {**written(family, kind), **small}
    for section in ("wire", "server"):
        links = scenario.get(section, [])
        scenario[section] = [{"kind": link, **needed} if link == kind else link for link in links]
    scenario["server"] = scenario["server"] or ["mean"]
    if kind in ON_THE_WIRE:
        scenario["wire"] = [scenario["server"].pop(0)]
    if kind in OF_ADAPTERS:
        scenario["model"] |= {"adapter": {"kind": "lora", "rank": 2}}
    if kind in READERS:
        scenario["data"] |= {"server": {"samples": 10}}
    if kind in PARTNERS:
        scenario["client"] = {"kind": PARTNERS[kind]}
    if kind == "fedbn":
        scenario["client"] = {"kind": kind, "personal": ["b"]}
    if kind in GRAPH_METHODS:
        scenario = {key: scenario[key] for key in scenario if key not in ("wire", "server")}
        scenario["topology"] = "ring"
        scenario["client"] = {"kind": kind, "steps": 1}
    scenario = read(scenario)
    with numerics(scenario):
        sound = check_scenario(scenario, None, None, None, None, federations_of)
        trained, shapes, some = sound.trained, sound.shapes, sound.federations[0]
        if family == "client":
            rows = sound.plan_inputs.local.widest(some.sizes)
            inputs = training_shapes(scenario, trained, some, rows)
            check_client(trained.client, trained.task, shapes, *inputs)
            return
        line = stack_shapes(scenario, trained, shapes, 7, 7)
        for path, section in links_of(scenario.spec):
            made = make_link(scenario, path, section)
            (check_rule if isinstance(made, Rule) else check_stage)(made, *line)
