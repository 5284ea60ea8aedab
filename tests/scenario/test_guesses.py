"""What a newcomer types before reading anything, and the answer: `guesses.csv`, a line each.

`typed` is a command line after `fedsim` (`where`: shell) or lines of a scenario (file). `answer` is
what the one line of the answer must contain, several lines divided by |; of an accepted file, it is
a path of the resolved scenario and its value.
"""

import csv
import functools
import inspect
import json
import re

import pytest
import yaml
from conftest import TESTS, WHOLE, if_all_installed
from test_commands import desk, fedsim  # noqa: F401 (desk is a fixture)

from fedsim.assemble.stack_inputs import checked_links
from fedsim.cli.catalogue import NOT_KINDS
from fedsim.cli.entry import asked, every_command, former
from fedsim.compose import ALIASES, FAMILIES
from fedsim.disk import tables
from fedsim.errors import EXIT_CODES, ScenarioError, nearest
from fedsim.scenario import read
from fedsim.scenario.annotations import annotation_of, literal_words
from fedsim.scenario.catalogue import family_named
from fedsim.scenario.explain import explanations, names
from fedsim.scenario.guesses import in_words, row_of
from fedsim.scenario.keys import keys, keys_at
from fedsim.scenario.load import edited
from fedsim.scenario.meanings import meanings
from fedsim.scenario.reader import parse
from fedsim.scenario.shorthand import call_of
from fedsim.spelling import plain
from fedsim.synonyms import Synonym, synonyms

pytestmark = if_all_installed  # its words are about all kinds and keys

GUESSES = list(csv.DictReader((TESTS / "guesses.csv").read_text(encoding="utf-8").splitlines(True)))


def written(typed: str) -> str:
    """A scenario with the typed lines from the fifth on; its `data` is the fourth."""
    data, rest = "data: digits", typed
    if typed.startswith("data:"):
        data, _, rest = typed.partition("\n")
    return f"name: guess\nrounds: 1\nseeds: 1\n{data}\n{rest}\n"


@pytest.mark.quick(8)
@pytest.mark.parametrize(
    "guess", GUESSES, ids=[guess["typed"].replace("\n", " ") for guess in GUESSES]
)
def test_a_guess_is_answered(guess, desk):  # noqa: F811
    code, answers = int(guess["exit"]), guess["answer"].split("|")
    if guess["where"] == "file" and code == 0:
        path, _, value = guess["answer"].partition("=")
        resolved = read(parse(written(guess["typed"]), "s.yaml")).resolved()
        assert at(resolved, path) == yaml.safe_load(value)
        return
    if guess["where"] == "file":
        (desk / "s.yaml").write_text(written(guess["typed"]))
    done = fedsim("check s.yaml" if guess["where"] == "file" else guess["typed"], desk)
    output = done.stderr if done.stderr else done.stdout
    assert done.returncode == code and all(answer in output for answer in answers), output
    if done.stderr:
        lines = done.stderr.splitlines()
        assert len(lines) == len(answers) and done.stdout == "" and "Traceback" not in output
        assert guess["where"] != "file" or all(line.startswith("s.yaml:") for line in lines)


def at(resolved: dict, path: str):
    """The value at a path such as `server[1].f`."""
    return functools.reduce(
        lambda value, part: value[int(part) if part.isdigit() else part],
        path.replace("[", ".").replace("]", "").split("."),
        resolved,
    )


WORDS = [
    guess
    for path in sorted(TESTS.rglob("words.csv"))
    for guess in csv.DictReader(path.read_text(encoding="utf-8").splitlines())
]


def answer_to(guess, folder) -> str:
    """What fedsim says to a line of `words.csv`; empty if it takes the line as it is."""
    if guess["where"] == "shell":
        done = fedsim(guess["typed"], folder)
        assert "Traceback" not in done.stderr
        return done.stderr
    try:
        read(parse(written(guess["typed"]), "s.yaml"))
    except ScenarioError as error:
        return str(error)
    return ""


FEW = ("server: fedavg", "method: fesem", "explain qlora", "list strategies", "tune iid.yaml")


@pytest.mark.parametrize("typed", FEW)
def test_a_word_of_another_tool_leads_to_ours(typed, desk):  # noqa: F811
    (guess,) = (guess for guess in WORDS if guess["typed"] == typed)
    assert guess["answer"] in answer_to(guess, desk)


@pytest.mark.long
@pytest.mark.parametrize("where", ["file", "shell"])
def test_every_word_of_other_tools_leads_to_ours(where, desk):  # noqa: F811
    """`words.csv`: what users of other tools type, and the part of the line that names ours."""
    words = [guess for guess in WORDS if guess["where"] == where]
    assert len(words) > 200
    for guess in words if WHOLE else words[::3]:
        line = answer_to(guess, desk)
        assert is_led(guess["answer"], line), (guess, line)


@pytest.mark.parametrize(
    ("typed", "name"),
    [("focal", "final"), ("consent", "constant"), ("centre", "centralised"), ("smote", "score")],
)
def test_a_word_that_only_looks_alike_is_no_guess(typed, name):
    assert nearest(typed, [name]) is None


def is_led(answer: str, line: str) -> bool:
    """Whether a line leads to ours: as listed, or to the thing itself, once that exists."""
    exists_now = "nearest: " not in line and "known: " not in line
    return answer in line or (answer.startswith("nearest: ") and exists_now)


# ---- the table of synonyms


def flags(name: str) -> set[str]:
    parameters = every_command()[name].params
    return {flag for p in parameters for flag in (*p.opts, *p.secondary_opts)}


def test_no_synonym_is_listed_twice_and_the_target_of_each_exists():
    places = [(plain(s.typed), s.where) for s in synonyms() if s.where != "parameter"]
    assert len(places) == len(set(places))
    every = set().union(*map(flags, every_command()))
    explained = {*names(), *every_command()}
    every_factory = [factory for kinds in FAMILIES.values() for factory in kinds.values()]
    every_parameter = set().union(*map(parameters, every_factory))
    for synonym in filter(lambda s: s.ours, synonyms()):
        where, _, of = synonym.where.partition(":")
        first = synonym.ours.split()[0]
        if where in ("command", "list"):
            words = asked(synonym.ours.split())[0]
            assert words in every_command() or words == "data", synonym
            if first in ("list", "explain") and "{" not in synonym.ours:
                assert is_answered(synonym.ours), synonym
        elif first.startswith("--"):
            assert first in (flags(of) if where == "option" and of else every), synonym
        elif where == "key":
            assert keys_at(synonym.ours) or keys_at(f"{of}.{synonym.ours}"), synonym
        elif where == "parameter":
            assert set(synonym.ours.split()) <= every_parameter, synonym
        elif where in ("kind", "number", "suffix") and of in FAMILIES | {"": {}}:
            assert is_link(synonym.ours, of), synonym
        elif where in ("absent", "column"):
            assert set(synonym.ours.split()) <= explained, synonym
        elif where == "value" and not of.startswith("--") and not set("{[") & set(synonym.ours):
            assert synonym.ours in literal_words(annotation_of(keys_at(of)[0].field)), synonym


def is_answered(line: str) -> bool:
    command, _, name = line.partition(" ")
    if command == "list":
        return not name or bool(family_named(name)) or name in NOT_KINDS
    return bool(explanations(name, options=dict.fromkeys([name.replace("_", "-")], "")))


def parameters(factory) -> list[str]:
    return list(inspect.signature(factory).parameters)


def is_link(text: str, family: str) -> bool:
    """Whether a link as written, with placeholders filled in, is one of a family, or of any."""
    text = text.replace("{value}", "1").replace("{number}", "1")
    links = [text]
    if not text.startswith("{"):
        links = text.replace(" or ", ", ").split(", ") if "(" not in text else [text]
    for link in links:
        values = yaml.safe_load(link) if link.startswith("{") else call_of(link)
        families = {"": FAMILIES, "stage": ("stage", "aggregate_stage", "rule")}.get(
            family, [family]
        )
        kind = ALIASES.get(values["kind"], values["kind"])
        factories = [FAMILIES[name][kind] for name in families if kind in FAMILIES[name]]
        given = set(values) - {"kind", "lr", "path", "loss", "nesterov"}
        if not any(given <= set(parameters(factory)) for factory in factories):
            return False
    return True


def test_a_synonym_gives_way_to_a_kind_of_its_name(monkeypatch):
    row = row_of("fedphp", "kind")
    assert "nearest: ditto" in in_words(row, "fedphp")
    monkeypatch.setitem(FAMILIES["client"], "fedphp", FAMILIES["client"]["fedper"])
    belongs = "a client, which belongs in client"
    assert in_words(row, "fedphp") == f"fedphp is {belongs}: fedsim explain fedphp"
    with pytest.raises(ScenarioError, match=f"that is {belongs}"):
        read({"name": "x", "data": "digits", "server": ["fedphp"]})
    waits = Synonym("dp", "absent", "clip", "", once=("fedper",))
    assert in_words(waits, "dp").startswith("fedper is a method")


@pytest.mark.long
def test_every_key_column_file_exit_code_and_command_is_explained(desk):  # noqa: F811
    tuples = [value for value in vars(tables).values() if isinstance(value, tuple)]
    columns = set().union(*tuples) - {*tables.COMPUTED}
    shown = {".".join(path) for path in keys()}
    assert {"client.lr", "data.partition.alpha", "server.lr.alpha", "client.weight_decay"} <= shown
    files = (*meanings()["files"], *meanings()["tables"])
    for name in (*shown, *columns, *files, *map(str, EXIT_CODES), "exit"):
        explained = explanations(name)
        assert json.loads(json.dumps(explained))
        for meaning in explained:
            assert meaning["parameters"] or meaning.get("entries") or meaning.get("summary")
    for words in every_command():
        name = words.split()[-1].lstrip("-")
        explained = fedsim(f"explain command/{name}", desk).stdout
        assert explained.startswith(f"command/{name}\n  fedsim ")
        assert f"\n  fedsim {words}: " in explained
    for name, words in former().items():
        shown = fedsim(f"explain command/{name}", desk).stdout
        assert " " in name or f"\n  fedsim {words}: " in shown


def test_a_name_with_two_meanings_is_asked_for_by_family():
    assert {meaning["family"] for meaning in explanations("method")} == {"section", "column"}
    assert [meaning["family"] for meaning in explanations("column/method")] == ["column"]
    assert list(explanations("clients.csv/bytes_up")[0]["entries"]) == ["clients.csv"]
    assert [meaning["kind"] for meaning in explanations("rule/median")] == ["median"]
    with pytest.raises(ScenarioError, match="nothing is called 'key/krum'"):
        explanations("key/krum")


def test_short_options_exist_wherever_the_long_ones_do():
    for name in every_command():
        known = flags(name)
        assert ("--out" in known) == ("-o" in known) and ("--set" in known) == ("-s" in known), name
    assert "--device" in flags("check")


def test_calls_may_replace_mappings_and_set_changes_their_arguments():
    (link,) = checked_links("aggregate", "server", "server", "krum(f=2)")
    assert (link.kind, link.f) == ("krum", 2)
    data = "digits(partition=dirichlet(alpha=0.2, min_samples=3))"
    scenario = read({"name": "x", "data": data, "server": ["krum(f=1)", "adam(lr=1)"]})
    partition = {"kind": "dirichlet", "alpha": 0.2, "min_samples": 3, "bins": None}
    assert scenario.resolved()["data"]["partition"] == partition
    changed = edited(scenario.document, "server[0].f=2")
    assert changed.values["server"][0] == {"kind": "krum", "f": 2}
    # What only looks like a call stays text.
    values = {"name": "x", "data": {"kind": "csv", "path": "a (1).csv", "target": "price (USD)"}}
    assert read(values).resolved()["data"]["target"] == "price (USD)"


# ---- the client of most papers


SHORT = {"momentum": 0.9, "nesterov": True, "weight_decay": 1e-4}
LONG = {"optimizer": {"kind": "sgd", **SHORT}}
NOTHING = {"momentum": None, "nesterov": False, "weight_decay": 0.0}


@pytest.mark.parametrize("client", [{}, {"kind": "fedprox", "mu": 0.1}], ids=str)
def test_the_short_form_is_resolved_into_the_long_one(client):
    scenarios = {"name": "x", "data": "digits"}
    forms = (SHORT, LONG, {}, NOTHING)
    short, long, plain, zero = (read({**scenarios, "client": {**client, **f}}) for f in forms)
    assert short.resolved() == long.resolved() and short.hash() == long.hash()
    assert read(short.resolved()).resolved() == long.resolved()
    assert plain.hash() == zero.hash()  # the same program


def test_a_method_keeps_the_short_form_of_the_file():
    document = parse(written("client: {lr: 0.5, momentum: 0.9}"), "s.yaml")
    client = read(document, method="fedprox(mu=0.1)").resolved()["client"]
    assert (client["kind"], client["optimizer"]["momentum"]) == ("fedprox", 0.9)


@pytest.mark.parametrize("form", ["{momentum: 0.1}", "{optimizer: {kind: sgd}}", "{}"])
def test_set_changes_either_form(form):
    document = parse(written(f"client: {form}"), "s.yaml")
    for edit in ("client.momentum=0.5", "client.momentum=0.3"):
        scenario = read(document, (edit,))
        document = scenario.document
        assert scenario.resolved()["client"]["optimizer"]["momentum"] == float(edit[-3:])


def test_short_and_long_form_together_are_refused_with_both_lines():
    text = written("client:\n  optimizer: {kind: sgd}\n  momentum: 0.9\n  nesterov: true")
    with pytest.raises(ScenarioError) as error:
        read(parse(text, "s.yaml"))
    first, second = str(error.value).splitlines()
    assert re.match(r"s.yaml:7:3: client.momentum: is short for .*of line 6; keep one", first)
    assert second.startswith("s.yaml:8:3: client.nesterov: is short for")
    with pytest.raises(ScenarioError, match=r"client\.momentum: is short for .* keep one of them"):
        read(parse(written("client: {momentum: 0.9}"), "s.yaml"), ("client.optimizer=adam",))
