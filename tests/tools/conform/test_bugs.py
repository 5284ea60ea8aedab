"""Bugs of other frameworks in a user's own file that claims to be the method: `conform` tells.

The changed module of `MUTANTS.md` is a plug-in, whose kind has another name and claims the limit
`{CONDITION: KIND}`. Without the change it keeps all laws, as the kind that ships does.
"""

import re

import pytest
from conftest import ROOT
from test_mutants import MUTANTS

import fedsim

pytestmark = [pytest.mark.long, pytest.mark.usefixtures("own_kinds")]

CLAIMS = {  # family: (bug, the condition under which it shows, the kind that the file claims)
    "rule": ("median = lower middle (torch.median)", "always", "median"),
    "client": ("prox without 1/2 (gradient 2 mu (y-x))", "always", "fedprox"),
    "optimizer": ("FedAvgM: v = beta v + (1-beta) dw", "always", "fedavgm(momentum=0.9)"),
    "stage": ("norm bounding scales every row to the bound", "always", "clip(norm=1.0)"),
    "codec": ("DRIVE scale computed on the unpadded length", "biased=true", "drive(biased=true)"),
}


@pytest.mark.parametrize("bug, condition, call", CLAIMS.values(), ids=CLAIMS)
def test_the_bug_is_noticed(bug, condition, call, tmp_path):
    mutant = next(each for each in MUTANTS if each.bug == bug)
    text = (ROOT / mutant.module).read_text()
    for old, new in mutant.changes.items():
        text = text.replace(old, new)

    kind = call.partition("(")[0]
    text = re.sub(rf"^def {kind}\(", f"def faulty_{kind}(", text, flags=re.MULTILINE)
    path = tmp_path / f"faulty_{kind}.py"
    path.write_text(f"{text}\n\nlimits = {{'faulty_{kind}': {{{condition!r}: {call!r}}}}}\n")
    (found,) = fedsim.conform(path, f"faulty_{call}")
    assert found.broken
