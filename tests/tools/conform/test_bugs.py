"""Bugs of public frameworks, as a user's own file that claims to be the method: `conform` tells.

`mutants.py` has them as changes of our source. Here the changed module is a plug-in, whose kind has
another name and claims the limit `{"always": KIND}`. A copy without a change keeps all laws.
"""

import re
import sys
from typing import NamedTuple

import pytest
from mutants import CODECS, OPTIMISERS, ROBUST, Mutant
from test_mutants import source

import fedsim
from fedsim.kinds import FAMILIES
from fedsim.tools.conform.conformity import LAWS
from fedsim.tools.conform.findings import Conformity

pytestmark = pytest.mark.usefixtures("quickly_compiled")

BUGS = [*OPTIMISERS, *ROBUST, *CODECS]
# Where the bug is not in a kind, or is in a kind only with other arguments than ours.
ELSEWHERE = {
    "server subtracts Delta (sign)": (
        "rules/mean.py",
        {"tree.divide(total[0], weight)": "tree.divide(tree.scale(total[0], -1), weight)"},
    ),
}
# Rounding makes ⌊f/n · n⌋ less than f for few f and n only, of which the laws try none.
UNNOTICED = {"trimmed mean int(beta*n), beta=f/n"}
KIND_OF = {  # of a module with several kinds or where the module has another name
    "Multi-Krum returns a sum": "multi_krum(f=1, select=3)",
    "FedAvgM: v = beta v + (1-beta) dw": "fedavgm(momentum=0.9)",
    "FedYogi sign reversed": "fedyogi",
    "median = lower middle (torch.median)": "median",
    "norm bounding scales every row to the bound": "clip(norm=1.0)",
    "centered clipping around 0, ignoring v0": "centered_clipping(radius=0.01)",
    "trimmed mean drops f in total": "trimmed_mean(trim=2)",
    "DRIVE scale computed on the unpadded length": "drive(biased=true)",
    "k-level quantiser with k instead of k-1 intervals": "stochastic_quantise(levels=4)",
}
CONDITION_OF = {  # under which the bug shows
    "DRIVE scale computed on the unpadded length": "biased=true",
    "FedNova momentum normalised by tau instead of |a|_1": (
        "client.optimizer={kind: sgd, momentum: 0.9}, client.steps=null, server=[nova]"
    ),
}


class File(NamedTuple):
    """A user's file."""

    text: str
    call: str  # of its kind that has the bug


def file_of(mutant: Mutant, changed: bool = True) -> File:
    """The changed module as a file of a user, whose kinds have names of their own."""
    module, changes = ELSEWHERE.get(mutant.bug, (mutant.module, mutant.changes))
    text = source(module, changes if changed else {})
    known = {kind for family in LAWS for kind in FAMILIES[family]}
    decorated = re.findall(r"^@\w+\ndef (\w+)\(", text, re.MULTILINE)
    kinds = [kind for kind in decorated if kind in known]
    for kind in kinds:
        text = re.sub(rf"^def {kind}\(", f"def my_{kind}(", text, flags=re.MULTILINE)
    call = KIND_OF.get(mutant.bug, "fedadam" if "fedadam" in kinds else kinds[0])
    name, bracket, arguments = call.partition("(")
    limits = {f"my_{name}": {CONDITION_OF.get(mutant.bug, "always"): call}}
    return File(f"{text}\n\nlimits = {limits}\n", f"my_{name}{bracket}{arguments}")


@pytest.fixture
def conform(tmp_path, own_kinds):
    """Examine a file; it can be loaded again when the test has ended."""
    loaded = set(sys.modules)

    def examine(file: File, name: str) -> list[Conformity]:
        path = tmp_path / f"{name}.py"
        path.write_text(file.text)
        return fedsim.conform(path, file.call)

    yield examine
    for module in set(sys.modules) - loaded:
        if module.startswith("fedsim_plugin_"):
            del sys.modules[module]


NOTICED = [bug for bug in BUGS if bug.bug not in UNNOTICED]


@pytest.mark.long
@pytest.mark.share(48)
@pytest.mark.parametrize("mutant", NOTICED, ids=lambda mutant: mutant.bug)
def test_the_bug_is_noticed(mutant, conform):
    (found,) = conform(file_of(mutant), "bug")
    assert found.broken


@pytest.mark.long
@pytest.mark.share(82)
@pytest.mark.parametrize("mutant", BUGS, ids=lambda mutant: mutant.bug)
def test_a_copy_without_the_bug_is_not(mutant, conform):
    (found,) = conform(file_of(mutant, changed=False), "copy")
    assert not found.broken, str(found)
