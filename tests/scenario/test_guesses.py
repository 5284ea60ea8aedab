"""What a newcomer types before reading anything, and the answer: `guesses.csv`, a line each.

`typed` is a command line after `fedsim` (`where`: shell) or lines of a scenario (file). `answer` is
what the one line of the answer must contain, several lines divided by |; of an accepted file, it is
a path of the resolved scenario and its value.
"""

import csv
import functools

import pytest
import yaml
from conftest import TESTS, WHOLE, if_all_installed
from test_commands import desk, fedsim  # noqa: F401 (desk is a fixture)

from fedsim.cli.entry import every_command
from fedsim.errors import ScenarioError, nearest
from fedsim.scenario import read
from fedsim.scenario.reader import parse

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


def flags(name: str) -> set[str]:
    parameters = every_command()[name].params
    return {flag for p in parameters for flag in (*p.opts, *p.secondary_opts)}


def test_short_options_exist_wherever_the_long_ones_do():
    for name in every_command():
        known = flags(name)
        assert ("--out" in known) == ("-o" in known) and ("--set" in known) == ("-s" in known), name
    assert "--device" in flags("check")
