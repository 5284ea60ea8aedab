"""The JSON Schema accepts what the reader accepts, and refuses what it can of the rest."""

import inspect
import itertools
import json

import jsonschema
import optax
import pytest
from conftest import ROOT, if_all_installed, own_kinds_of

from fedsim import kinds
from fedsim.compose import ALIASES, FAMILIES
from fedsim.scenario import read, sections
from fedsim.scenario.docs import docs_of
from fedsim.scenario.json_schema import editor_schema
from fedsim.scenario.reader import parse

GOLDEN = ROOT / "scenarios" / "schema.json"
OURS = [*(ROOT / "scenarios").rglob("*.yaml"), *(ROOT / "fedsim/scenario").glob("*.yaml")]
SCENARIOS = sorted(OURS)
COMMON = ["DataCommon", "ClientCommon", "ModelCommon"]
SECTIONS = [*COMMON, "Fleet", "Evaluate", "Numerics", "Checkpoint"]
BUILT_IN = [(family, *kind) for family in FAMILIES for kind in own_kinds_of(family).items()]
COUNTS = itertools.count(10**6)


@pytest.fixture(scope="module")
def golden():
    return json.loads(GOLDEN.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def shipped():
    """The schema without the kinds of plug-ins."""
    return editor_schema(plugins=False)


@pytest.fixture(scope="module")
def validator(shipped):
    return jsonschema.Draft7Validator(shipped)


@if_all_installed
def test_the_schema_in_scenarios_is_up_to_date(golden, shipped):
    if golden["$comment"] != f"optax {optax.__version__}":
        pytest.skip("its kinds are those of another optax")
    renew = "renew it: fedsim new --schema --out scenarios/schema.json"
    built = json.dumps(shipped, indent=1, ensure_ascii=False) + "\n"
    assert built == GOLDEN.read_text(encoding="utf-8"), renew


@pytest.mark.long
def test_it_is_a_small_schema_of_draft_7(golden):
    assert golden["$schema"] == "http://json-schema.org/draft-07/schema#"
    jsonschema.Draft7Validator.check_schema(golden)
    assert GOLDEN.stat().st_size < 1_000_000


def test_a_scenario_without_a_base_has_a_name_and_data(golden):
    assert "extends" in golden["properties"] and "required" not in golden
    assert golden["else"]["required"] == ["name", "data"]
    assert golden["else"]["properties"]["data"] == {"required": ["kind"]}


def test_every_hyper_parameter_is_described():
    of_optax = (":math:", ":func:", "``", "\\")
    wrong = []
    for family, kind, factory in BUILT_IN:
        docs = docs_of(factory)
        names = inspect.signature(factory).parameters
        has_markup = any(sign in text for text in docs.args.values() for sign in of_optax)
        if not docs.summary or has_markup or not all(docs.args.get(name) for name in names):
            wrong.append(f"{family} {kind}")
    assert not wrong


def test_every_field_of_every_section_is_described(golden):
    bare = [name for name, key in golden["properties"].items() if not key.get("description")]
    for title, definition in golden["definitions"].items():
        keys = {"": definition} if title.startswith("any_") else definition["properties"]
        for name, key in keys.items():
            if "$ref" not in key and not key.get("description"):
                bare.append(f"{title} {name}")
    for name in SECTIONS:
        fields = getattr(sections, name).model_fields.values()
        bare += [name for field in fields if not field.description]
    assert not bare


def test_optax_calls_its_learning_rate_otherwise_and_writes_equations_in_latex():
    adam = docs_of(FAMILIES["optimizer"]["adam"])
    assert adam.args["lr"] == adam.args["learning_rate"] and "m_t ← β_1 · m_(t-1)" in adam.body
    assert docs_of(lambda: None) == ("", "", {}, {})


@if_all_installed
@pytest.mark.quick(6)
@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_shipped_scenarios_are_valid_as_written_and_resolved(path, validator):
    validator.validate(parse(path.read_text(encoding="utf-8"), path.name).values)
    validator.validate(read(path).resolved())


# As a scenario has them beside `name` and `data`.
FORMS = [
    "{model: cnn, cohort: all, client: scaffold, server: [median]}",
    "{server: [nnm_is_wrong]}",
    "{server: [{kind: nnm, f: 1}, fedmedian, {kind: sgd, lr: 1}], wire: [sign_flip]}",
    "{seeds: 3}",
    "{seeds: 0}",
    "{seeds: []}",
    "{method: fedprox(mu=0.1)}",
    "{method: {kind: fedadam, lr: 0.1}}",
    "{method: null}",
    "{method: krum(f=1)}",
    "{method: {kind: fedprox, muu: 1}}",
    "{client: {lr: 0.1, steps: [1, 2]}}",
    "{client: {batch: full, steps: 4, epochs: null}}",
    "{client: {lr: {kind: exponential_decay, init_value: 1, transition_steps: 9, decay_rate: 1}}}",
    "{client: {lr: {kind: linear_schedule, init_value: 0.1}}}",
    "{client: {optimizer: adam}}",
    "{client: {optimizer: {kind: adam, lr: 0.1}}}",
    "{client: {kind: sgd, mu: 0.1}}",
    "{client: {momentum: 0.9, nesterov: true, weight_decay: 1e-4}}",
    "{client: {weight_decay: -1}}",
    "{client: 'sgd(lr=0.1, optimizer=adam(b1=0.8))'}",
    "{data: 'csv(path=a.csv, target=b)', cohort: uniform(size=10), wire: [sign_flip(scale=2)]}",
    "{data: {kind: digits, partition: 'dirichlet(alpha=0.1, min_samples=2)'}}",
    "{data: {kind: digits, partition: 'dirichlet:0.1'}}",
    "{server: [clip(norm=1), krum(f=2), adam(lr=0.1)]}",
    "{model: 'mpl(hidden=[3])'}",
    "{server: [{f: 1}]}",
    "{server: [mean, adam]}",
    "{server: []}",
    "{server: mean}",
    "{fleet: {malicious: 1.5}}",
    "{numerics: {lanes: auto, threads: 4}}",
    "{numerics: {lanes: many}}",
    "{name: a b}",
    "{rouns: 3}",
    "{data: {kind: digits, partition: {kind: dirichlet, alpha: 0}}}",
    "{data: {kind: digits, partition: shards, server: {samples: 10}}}",
]


@pytest.mark.parametrize("sections", FORMS)
def test_reader_and_schema_agree(sections, validator):
    values = {"name": "a", "data": "digits", **parse(sections, "s.yaml").values}
    try:
        read(values)
        readable = True
    except ValueError:
        readable = False
    assert validator.is_valid(values) == readable


def test_aliases_are_listed_beside_their_kinds(golden):
    for alias, name in ALIASES.items():
        assert any(
            {alias, name} <= set(definition["properties"]["kind"]["enum"])
            for key, definition in golden["definitions"].items()
            if not key.startswith("any_")
        )


@pytest.mark.long
def test_kinds_of_plug_ins_are_included_unless_turned_off(monkeypatch):
    def loudest(scale: float = 1.0): ...

    loudest.__module__ = "mine"
    monkeypatch.setitem(FAMILIES["rule"], "loudest", loudest)
    monkeypatch.setattr(kinds.names, "_registrations", [next(COUNTS)])
    values = {"name": "a", "data": "digits", "server": [{"kind": "loudest", "scale": 2.0}]}
    without = editor_schema(plugins=False)
    assert "rule.loudest" not in without["definitions"]
    assert jsonschema.Draft7Validator(editor_schema()).is_valid(values)
    assert not jsonschema.Draft7Validator(without).is_valid(values)
