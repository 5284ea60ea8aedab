"""`fedsim check --laws`: ours keep the laws that they must; what is broken is made small."""

import json
import shlex

import pytest
from conftest import WHOLE, own_kinds_of
from test_commands import fedsim as typed

import fedsim
import fedsim.scenario.methods

ARGUMENTS = {  # of kinds that have no defaults by which they can be made
    "centered_clipping": "radius=1.0",
    "ef21": "codec=top_k(k=3)",
    "error_feedback": "codec=top_k(k=3)",
    "rand_k": "k=3",
    "robust_learning_rate": "threshold=2",
    "secure_aggregation": "bits=16, scale=100.0",
    "threshold": "value=0.5",
    "top_k": "k=3",
}
FAMILIES_TRIED = ["client", "rule", "stage", "attack", "codec", "cohort", "partition"]
NOT_ALONE = {"domains", "file"}  # partitions by a column or a file of the user
OURS = [
    f"{kind}({ARGUMENTS[kind]})" if kind in ARGUMENTS else kind
    for family in FAMILIES_TRIED
    for kind in own_kinds_of(family)
    if kind not in NOT_ALONE
]
MEDIAN = """
import jax
import jax.numpy as jnp
import fedsim

limits = {"always": "median"}
laws = ["permutation", "translation"]


@fedsim.rule
def midrange(factor: float = 1.0):
    '''Halfway between the least and the largest value.'''

    def reduce(updates, context):
        reported = updates.arrived
        row = lambda x: reported.reshape(-1, *[1] * (x.ndim - 1))
        low = lambda x: jnp.min(jnp.where(row(x), x, jnp.inf), axis=0)
        return jax.tree.map(lambda x: factor * (low(x) - low(-x)) / 2, updates.delta)

    return reduce
"""


def conform(*words):
    """(exit code, stdout, stderr) of the command."""
    return typed(shlex.join(["check", "--laws", *map(str, words)]), ".")


@pytest.fixture
def file(tmp_path, request, own_kinds):
    """Write a file of a name of its own."""
    name = f"law_{abs(hash(request.node.name))}.py"

    def write(text):
        path = tmp_path / name
        path.write_text(text)
        return path

    return write


@pytest.mark.long
@pytest.mark.parametrize("call", OURS if WHOLE else ["fedprox"])
def test_a_kind_that_ships_keeps_the_laws_of_its_family(call):
    for found in fedsim.conform(call):
        assert not found.broken, str(found)


@pytest.mark.long
def test_a_broken_claim_is_named_with_the_smallest_counterexample(file):
    code, out, err = conform(file(MEDIAN))
    assert (code, err) == (7, "")
    lines = dict(line[2:].split("  ", 1) for line in out.splitlines()[1:])
    verdict, counterexample = lines["always: median"].split(maxsplit=1)
    assert verdict == "BROKEN"
    assert counterexample == "rows [[1], [0], [0]]: [0.5] in place of [0]"
    assert lines["translation"].strip() == "kept"


@pytest.mark.long
def test_what_is_not_claimed_may_be_broken(file):
    text = MEDIAN.replace('"always": "median"', "").replace('"translation"', '"equal rows"')
    path = file(text)
    code, out, _ = conform(path, "midrange(factor=2.0)", "--json")
    (found,) = json.loads(out)
    verdicts = {each["law"]: (each["verdict"], each["claimed"]) for each in found["findings"]}
    assert code == 7 and verdicts["equal rows"] == ("broken", True)
    assert verdicts["translation"] == ("broken", False)
    code, out, _ = conform(path)
    assert code == 0 and "BROKEN" not in out


BAD = {  # text of a file -> what the line says
    "def (": "line 1: invalid syntax",
    "import fedsim": "registers no kind; decorate a factory, as with @fedsim.rule",
    "1 / 0": "line 1: ZeroDivisionError: division by zero",
    "import fedsim\n@fedsim.dataset\ndef points_of(seed: int = 0):\n    return seed\n": (
        "registers dataset points_of; there are laws of client, rule"
    ),
    "import fedsim\n@fedsim.rule\ndef failing():\n    raise OSError('no')\n": (
        "rule failing: its factory raises OSError: no"
    ),
    "import fedsim\n@fedsim.rule\ndef lacking(word: str):\n    return word\n": (
        "rule lacking: needs word; name it as 'lacking(word=...)'"
    ),
    "import fedsim\nfrom fedsim.clients import sgd\n@fedsim.client\ndef silent():\n"
    "    return sgd()._replace(finish=lambda *inputs: 3)\n": "expected a fedsim.types.Message",
    MEDIAN.replace('"translation"', '"translations"'): (
        "there is no law 'translations'; did you mean 'translation'?"
    ),
    MEDIAN.replace('"median"', '"medain"'): "there is no rule 'medain'; did you mean 'median'?",
    MEDIAN.replace('{"always": "median"}', "3"): 'limits: is 3; write {"mu=0": "sgd"}',
}


@pytest.mark.parametrize(
    "text",
    # A limit is looked up when all laws have been tried.
    [pytest.param(text, marks=pytest.mark.long) if "medain" in text else text for text in BAD],
    ids=range(len(BAD)),
)
def test_a_bad_file_gets_one_line(text, file):
    require_one_line(conform(file(text)), BAD[text])


def test_a_bad_target_gets_one_line():
    for word, says in (
        ("medain", "is no kind with laws"),
        ("digits", "is no kind with laws"),
        ("nothing.py", "there is no such file"),
        ("krum(q=2)", "has no parameter 'q'"),
        ("top_k", "its factory raises"),
        ("krum(2)", "write NAME(a=1, b=2)"),
    ):
        require_one_line(conform(word), says)


def require_one_line(done, says):
    code, out, err = done
    assert (code, out) == (2, "") and err.count("\n") == 1, err
    assert says in err
