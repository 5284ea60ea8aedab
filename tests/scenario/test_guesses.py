"""What a newcomer types before reading anything, and the answer: `guesses.csv`, a line each.

`typed` is a command line after `fedsim` (`where`: shell) or lines of a scenario (file). `answer` is
what the one line of the answer must contain, several lines divided by |; of an accepted file, it is
a path of the resolved scenario and its value.
"""

import csv
import functools
import json

import numpy as np
import pytest
import yaml
from conftest import TESTS
from test_commands import desk, fedsim  # noqa: F401 (desk is a fixture)

import fedsim as package
from fedsim.assemble.stack_inputs import checked_links
from fedsim.cli.entry import MODULES, cli
from fedsim.compose import ALIASES, FAMILIES
from fedsim.disk import tables
from fedsim.errors import EXIT_CODES, ScenarioError
from fedsim.rules.sgd import sgd
from fedsim.scenario import read
from fedsim.scenario.explain import explanations
from fedsim.scenario.keys import keys, keys_at
from fedsim.scenario.load import edited
from fedsim.scenario.meanings import meanings
from fedsim.scenario.reader import parse
from fedsim.scenario.sections import Spec
from fedsim.scenario.shorthand import call_of
from fedsim.synonyms import Synonym, _plain, synonyms

GUESSES = list(csv.DictReader((TESTS / "guesses.csv").read_text(encoding="utf-8").splitlines(True)))


def written(typed: str) -> str:
    """A scenario with the typed lines from the fifth on; its `data` is the fourth."""
    data, _, rest = (
        typed.partition("\n") if typed.startswith("data:") else ("data: digits", "", typed)
    )
    return f"name: guess\nrounds: 1\nseeds: 1\n{data}\n{rest}\n"


@pytest.mark.parametrize(
    "guess", GUESSES, ids=[guess["typed"].replace("\n", " ") for guess in GUESSES]
)
def test_a_guess_is_answered(guess, desk):  # noqa: F811
    code, answers = int(guess["exit"]), guess["answer"].split("|")
    if guess["where"] == "file" and code == 0:
        path, _, value = guess["answer"].partition("=")
        assert at(
            read(parse(written(guess["typed"]), "s.yaml")).resolved(), path
        ) == yaml.safe_load(value)
        return
    if guess["where"] == "file":
        (desk / "s.yaml").write_text(written(guess["typed"]))
    done = fedsim("check s.yaml" if guess["where"] == "file" else guess["typed"], desk)
    told = done.stderr if done.stderr else done.stdout
    assert done.returncode == code and all(answer in told for answer in answers), told
    if done.stderr:
        lines = done.stderr.splitlines()
        assert len(lines) == len(answers) and done.stdout == "" and "Traceback" not in told
        assert guess["where"] != "file" or all(line.startswith("s.yaml:") for line in lines)


def at(resolved: dict, path: str):
    """The value at a path such as `server[1].f`."""
    return functools.reduce(
        lambda value, part: value[int(part) if part.isdigit() else part],
        path.replace("[", ".").replace("]", "").split("."),
        resolved,
    )


def test_there_are_enough_guesses_and_each_once():
    assert len({(guess["typed"], guess["where"]) for guess in GUESSES}) == len(GUESSES) >= 60


# ---- the table of synonyms


def ids(synonym: Synonym) -> str:
    return f"{synonym.where} {synonym.typed}"


def flags(name: str) -> set[str]:
    command = cli.get_command(None, name)  # type: ignore[arg-type]
    return {flag for parameter in command.params for flag in parameter.opts}


def own(family: str) -> set[str]:
    return {
        kind
        for kind, factory in FAMILIES[family].items()
        if factory.__module__.startswith("fedsim.")
    }


def test_no_word_of_the_field_stands_twice_for_one_place():
    places = [(_plain(s.typed), s.where) for s in synonyms()]
    assert len(places) == len(set(places))


def test_a_word_that_fedsim_knows_itself_is_no_synonym():
    """What has a kind, key, command or option by now means that: its row has to go."""
    for synonym in synonyms():
        where, _, family = synonym.where.partition(":")
        typed = {
            "kind": lambda f=family: (
                set().union(*map(own, [f] if f else FAMILIES)) | ALIASES.keys()
            ),
            "key": lambda: set(Spec.model_fields),
            "command": lambda: set(MODULES),
            "python": lambda: set(),
            "option": lambda f=family: {flag.lstrip("-") for flag in flags(f or "run")},
        }[where]()
        assert synonym.typed not in typed, (
            f"take '{synonym.typed}' ({synonym.where}) out of fedsim/synonyms.csv"
        )


def test_what_a_synonym_leads_to_is_there():
    every = set().union(*map(flags, MODULES))
    for synonym in filter(lambda s: s.ours, synonyms()):
        where, _, family = synonym.where.partition(":")
        first = synonym.ours.split()[0]
        if where == "command":
            assert first in MODULES, synonym
        elif first.startswith("--"):
            assert first in (flags(family) if where == "option" and family else every), synonym
        elif where == "key":
            assert keys_at(synonym.ours), synonym
        elif where == "kind":
            link = yaml.safe_load(synonym.ours) if synonym.ours.startswith("{") else None
            for name in (
                synonym.ours.replace(" or ", ", ").split(", ")
                if family == "attack"
                else [synonym.ours]
            ):
                call = link or call_of(name)
                assert call and call["kind"] in own(family), synonym


# ---- explain


def test_every_key_column_file_exit_code_and_command_is_explained(desk):  # noqa: F811
    columns = {
        name for value in vars(tables).values() if isinstance(value, tuple) for name in value
    } - {*tables.COMPUTED}
    shown = {".".join(path) for path in keys()}
    assert {
        "rounds",
        "client.lr",
        "data.partition.alpha",
        "server.lr.alpha",
        "client.weight_decay",
    } <= shown
    for name in (
        *shown,
        *columns,
        *meanings()["files"],
        *meanings()["tables"],
        *map(str, EXIT_CODES),
        "exit",
    ):
        explained = explanations(name)
        assert json.loads(json.dumps(explained))
        assert all(
            meaning["parameters"] or meaning.get("entries") or meaning.get("summary")
            for meaning in explained
        )
    for name in MODULES:
        assert (
            f"command/{name}\n  fedsim {name}: " in fedsim(f"explain command/{name}", desk).stdout
        )


def test_a_name_with_two_meanings_is_asked_for_by_family():
    assert {meaning["family"] for meaning in explanations("method")} == {"section", "column"}
    assert [meaning["family"] for meaning in explanations("column/method")] == ["column"]
    assert list(explanations("clients.csv/bytes_up")[0]["entries"]) == ["clients.csv"]
    assert [meaning["kind"] for meaning in explanations("rule/median")] == ["median"]
    with pytest.raises(ScenarioError, match="nothing is called 'key/krum'"):
        explanations("key/krum")


# ---- short options


def test_short_options_stand_wherever_the_long_ones_do():
    for name in MODULES:
        known = flags(name)
        assert ("--out" in known) == ("-o" in known) and ("--set" in known) == ("-s" in known), name
    assert "--device" in flags("check")


# ---- calls


def test_calls_stand_for_mappings_wherever_links_are_given():
    (link,) = checked_links("server", "krum(f=2)")
    assert (link.kind, link.f) == ("krum", 2)
    values = {
        "name": "x",
        "data": "digits(partition=dirichlet(alpha=0.2, min_samples=3))",
        "server": ["krum(f=1)"],
    }
    assert read(values).resolved()["data"]["partition"] == {
        "kind": "dirichlet",
        "alpha": 0.2,
        "min_samples": 3,
    }


def test_set_reaches_into_a_call():
    document = read({"name": "x", "data": "digits", "server": ["krum(f=1)", "adam(lr=1)"]}).document
    assert edited(document, "server[0].f=2").values["server"][0] == {"kind": "krum", "f": 2}


def test_text_that_only_looks_like_a_call_stays_text():
    values = {"name": "x", "data": {"kind": "csv", "path": "a (1).csv", "target": "price (USD)"}}
    assert read(values).resolved()["data"]["target"] == "price (USD)"


# ---- the client of most papers


LONG = {"optimizer": {"kind": "sgd", "momentum": 0.9, "nesterov": True, "weight_decay": 1e-4}}
SHORT = {"momentum": 0.9, "nesterov": True, "weight_decay": 1e-4}


@pytest.mark.parametrize(
    "client", [{}, {"kind": "fedprox", "mu": 0.1}, {"kind": "scaffold"}], ids=str
)
def test_the_short_form_is_resolved_into_the_long_one(client):
    short, long = (
        read({"name": "x", "data": "digits", "client": {**client, **form}})
        for form in (SHORT, LONG)
    )
    assert short.resolved() == long.resolved() and short.hash() == long.hash()
    assert read(short.resolved()).resolved() == long.resolved()
    nothing = {"momentum": None, "nesterov": False, "weight_decay": 0.0}
    plain, zero = (
        read({"name": "x", "data": "digits", "client": {**client, **form}})
        for form in ({}, nothing)
    )
    assert plain.hash() == zero.hash()  # the same program


def test_a_method_keeps_the_short_form_of_the_file():
    document = parse(written("client: {lr: 0.5, momentum: 0.9}"), "s.yaml")
    resolved = read(document, method="fedprox(mu=0.1)").resolved()
    assert (
        resolved["client"]["kind"] == "fedprox"
        and resolved["client"]["optimizer"]["momentum"] == 0.9
    )


@pytest.mark.parametrize(
    "form", ["{momentum: 0.1}", "{optimizer: {kind: sgd, momentum: 0.1}}", "{}"]
)
def test_set_changes_either_form(form):
    document = parse(written(f"client: {form}"), "s.yaml")
    for edit in ("client.momentum=0.5", "client.momentum=0.3"):
        scenario = read(document, (edit,))
        document = scenario.document
        assert scenario.resolved()["client"]["optimizer"]["momentum"] == float(edit[-3:])


def test_both_places_together_are_refused_with_both_lines():
    text = written("client:\n  optimizer: {kind: sgd}\n  momentum: 0.9\n  nesterov: true")
    with pytest.raises(ScenarioError) as error:
        read(parse(text, "s.yaml"))
    first, second = str(error.value).splitlines()
    assert (
        first.startswith("s.yaml:7:3: client.momentum: is short for")
        and "of line 6; keep one" in first
    )
    assert second.startswith("s.yaml:8:3: client.nesterov: is short for")
    with pytest.raises(ScenarioError, match=r"client\.momentum: is short for .* keep one of them"):
        read(parse(written("client: {momentum: 0.9}"), "s.yaml"), ("client.optimizer=adam",))


@pytest.mark.parametrize("nesterov", [False, True])
@pytest.mark.parametrize("momentum", [None, 0.7])
def test_weight_decay_is_added_before_momentum(momentum, nesterov):
    """As in torch.optim.SGD: d = g + λ y, v ← μ v + d, y ← y − η (d + μ v or v)."""
    optimizer, rng = (
        sgd(0.1, momentum, nesterov and momentum is not None, 0.3),
        np.random.default_rng(0),
    )
    y, v = rng.normal(size=3).astype(np.float32), np.zeros(3)
    got, state = y, optimizer.init(y)
    for _ in range(4):
        g = rng.normal(size=3).astype(np.float32)
        d = g + 0.3 * y
        v = (momentum or 0) * v + d
        y = y - 0.1 * (d + momentum * v if nesterov and momentum else v)
        step, state = optimizer.update(g, state, got)
        got = got + step
    np.testing.assert_allclose(got, y, rtol=1e-5)


@pytest.mark.long
def test_zeros_change_no_byte(tmp_path):
    plain = {
        "name": "x",
        "rounds": 3,
        "data": {"kind": "digits", "clients": 10},
        "client": {"lr": 0.1},
    }
    zeros = {
        **plain,
        "client": {"lr": 0.1, "momentum": 0.0, "nesterov": False, "weight_decay": 0.0},
    }
    for name, values in (("plain", plain), ("zeros", zeros)):
        package.run(values, out=tmp_path / name)
    for name in ("rounds.csv", "clients.csv", "summary.csv", "model.fedavg.0.safetensors"):
        assert (tmp_path / "plain" / name).read_bytes() == (tmp_path / "zeros" / name).read_bytes()


@pytest.mark.long
def test_a_short_client_s_run_repeats_itself_from_its_record(tmp_path):
    short = {"name": "x", "rounds": 2, "data": {"kind": "digits", "clients": 10}, "client": SHORT}
    package.run(short, out=tmp_path / "one")
    package.run(tmp_path / "one/scenario.yaml", out=tmp_path / "two")
    for name in ("rounds.csv", "scenario.yaml", "model.fedavg.0.safetensors"):
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()


# ---- the rest


@pytest.mark.long
def test_check_takes_a_device(desk):  # noqa: F811
    assert fedsim("check iid.yaml --device cpu", desk).returncode == 0
