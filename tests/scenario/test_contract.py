"""What a user's hooks return is checked before training, and every fault is one line."""

import jax.numpy as jnp
import numpy as np
import pytest
from building import built
from conftest import TESTS

import fedsim
from fedsim.errors import HookError, ScenarioError, exit_code

PLUGIN = TESTS / "plugins" / "broken.py"
DATA = {"kind": "gaussian_blobs", "shape": [4], "classes": 3, "samples": 60, "clients": 5}
BASE = {"name": "x", "rounds": 1, "data": DATA, "model": "logistic", "client": {"batch": 6}}
PLACES = {"rule": "server[0]", "stage": "server[0]", "attack": "wire[0]"}
STACK = "returned [5, 4, 3] for W; one row is [4, 3]"
RETURNED = {  # family and kind -> the message
    "rule whole_stack": STACK,
    "rule integers": "returned int32 for W; one row is float32",
    "rule renamed": "returned leaves w; one row has leaves W, b",
    "rule forgetful": "returned nothing; one row has leaves W, b",
    "rule talkative": "returned str, which is not an array",
    "rule growing": "returned state [2, 2]; what init made is [2]",
    "rule stateless": "returned dict; expected (tree, state, info)",
    "rule unreturned": "returned NoneType; expected a function of (updates, context)",
    "stage every_other": "returned [3, 4, 3] for W; the stack is [5, 4, 3]",
    "stage bare": "returned dict; expected a fedsim.types.Updates",
    "stage summed": "returned [] for W; one row is [4, 3]",
    "attack elsewhere": "returned leaves w; what was sent has leaves W, b",
    "attack deeper": "returned [5, 4, 3, 1] for W; what was sent is [5, 4, 3]",
    "client lossless": "gradient returned dict; expected ((loss, stats), gradient)",
    "client halved": "step returned params float16 for W; the model is float32",
    "client hoarding": "step returned local leaves last.W, last.b; what start made has nothing",
    "client boxed": "finish returned delta leaves params.W, params.b; the model has leaves W, b",
    "client swelling": "finish returned memory [3]; what memory made is [2]",
    "client unannounced": "finish returned aux 'h', and the client's `reduce` says neither mean",
    "client faceless": "personal returned variables leaves params.W; the shared model has leaves",
    "client secretive": "returned shares without a leaf that travels; then the server learns",
    "client nobody": "returned NoneType; expected a fedsim.types.Client",
    "model narrow": "apply returned outputs (6, 1); the data have 3 classes: [6, 3]; samples are f",
    "model outputs_alone": "apply returned one array [6, 3]; expected (outputs, stats)",
}
RAISED = {  # family and kind -> the line of its file that fails, and how
    "rule misspelt": ("updates.detla", "AttributeError: 'Updates' object has no attribute 'detla'"),
    "rule undecided": ("if updates.weight[0] > 0:", "TracerBoolConversionError: Attempted boolean"),
    "stage weighed": ("updates._replace(weight=", "TypeError: updates.weight is arrived · samples"),
    "client misnamed": ('shared["momentum"]', "KeyError: 'momentum'"),
    "client undecidable": ("leaf.size > limit", "NameError: name 'limit' is not defined"),
    "model unnamed": ("features @ params", "NameError: name 'features' is not defined"),
    "model unfitting": ("(7, outputs)", "TypeError: dot_general requires contracting dimensions"),
}


@pytest.fixture(scope="module", autouse=True)
def plugin():
    fedsim.enable(str(PLUGIN))


def written(family: str, kind: str) -> dict:
    """A scenario with a kind of a family."""
    match family:
        case "rule":
            return {**BASE, "server": [kind]}
        case "stage":
            return {**BASE, "server": [kind, "mean"]}
        case "attack":
            return {**BASE, "wire": [kind]}
        case "client":
            return {**BASE, "client": {"kind": kind, "batch": 6}}
    return {**BASE, "model": kind}


def refused(name: str) -> ScenarioError:
    """The refusal of a scenario with `FAMILY KIND`."""
    with pytest.raises(ScenarioError) as error:
        built(written(*name.split()))
    assert "\n" not in str(error.value)
    return error.value


@pytest.mark.parametrize("name", RETURNED)
def test_a_wrong_return_value_is_refused_with_what_was_expected(name):
    family, kind = name.split()
    error = refused(name)
    where = PLACES.get(family, family)
    assert str(error).startswith(f"scenario: {where} {kind}: {RETURNED[name]}")
    assert exit_code(error) == 2


@pytest.mark.parametrize("name", RAISED)
def test_an_exception_in_a_hook_is_reported_with_file_and_line(name):
    family, kind = name.split()
    text, says = RAISED[name]
    lines = PLUGIN.read_text().splitlines()
    (number,) = [i for i, line in enumerate(lines, 1) if text in line]
    error = refused(name)
    where = PLACES.get(family, family)
    hook = "gradient: " if kind == "misnamed" else ""
    assert str(error).startswith(f"scenario: {where} {kind}: {hook}broken.py:{number}: {says}")
    shapes_do_not_fit = family == "model" and isinstance(error.__cause__.__cause__, TypeError)
    assert shapes_do_not_fit or (isinstance(error, HookError) and exit_code(error) == 1)


@pytest.mark.parametrize(
    ("sections", "says"),
    [
        ({"client": "demanding"}, "demanding needs lables, and a method may need classes, feature"),
        ({"cohort": "insatiable"}, "insatiable needs losses, and a cohort may need drawn, labels"),
    ],
)
def test_an_unknown_need_is_named(sections, says):
    with pytest.raises(ScenarioError, match=says):
        fedsim.run({**BASE, **sections})


def test_every_broken_link_is_reported_at_its_line_of_the_scenario(tmp_path):
    data = "data: {kind: gaussian_blobs, shape: [4], classes: 3, samples: 60, clients: 5}\n"
    server = "server:\n  - {kind: clip, norm: 1.0}\n  - kind: whole_stack\n"
    (tmp_path / "s.yaml").write_text(f"name: x\n{data}{server}")
    with pytest.raises(ScenarioError) as error:
        fedsim.run(tmp_path / "s.yaml")
    assert str(error.value) == f"{tmp_path}/s.yaml:5:5: server[1] whole_stack: {STACK}"

    broken = {"wire": ["deeper"], "client": {"kind": "halved"}}
    with pytest.raises(ScenarioError) as error:
        fedsim.run({**BASE, **broken, "server": ["every_other", {"kind": "krum", "f": 2}]})
    places = [line.split(": ")[1] for line in str(error.value).splitlines()]
    assert places == ["client halved", "wire[0] deeper", "server[0] every_other", "server[1].f"]


@pytest.mark.parametrize(
    ("apply", "error", "says"),
    [
        (lambda params, x: (x @ params)[0], ScenarioError, "apply returned outputs (3,) for a"),
        (lambda params, x: x @ weights, HookError, "NameError: name 'weights' is not defined"),
    ],
    ids=["a wrong shape", "an exception"],
)
def test_a_python_caller_s_model_is_checked_as_well(apply, error, says):
    with pytest.raises(error) as refusal:
        fedsim.run(BASE, model=(lambda key: jnp.zeros((4, 3)), apply))
    assert str(refusal.value).startswith("scenario: model: ") and says in str(refusal.value)
    assert (error is HookError) == ("test_contract.py:" in str(refusal.value))


ROWS = np.ones((5, 2))
TOO_FEW = "trimmed_mean(trim=3): 5 rows reported, at least 7 are needed; lower trim, or give more"


@pytest.mark.parametrize(
    ("call", "link", "says"),
    [
        (fedsim.aggregate, "whole_stack", "server[0] whole_stack: returned [5, 2]; one row is [2]"),
        (fedsim.aggregate, "misspelt", "server[0] misspelt: broken.py:"),
        (fedsim.transmit, "every_other", "wire[0] every_other: returned [3, 2]; the stack is [5"),
        (fedsim.aggregate, "trimmed_mean(trim=3)", f"server[0].trim: {TOO_FEW}"),
        (fedsim.transmit, "mix_neighbours(f=5)", "wire[0].f: mix_neighbours(f=5): 5 rows reported"),
    ],
    ids=lambda part: part if isinstance(part, str) else "",
)
def test_errors_on_a_user_s_stack_name_the_link(call, link, says):
    with pytest.raises(ScenarioError) as error:
        call(link, ROWS)
    assert str(error.value).startswith(f"{call.__name__}: {says}")
    assert "\n" not in str(error.value)
    assert fedsim.aggregate("integers", ROWS).tolist() == [1, 1]  # another dtype is no fault
