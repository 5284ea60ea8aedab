"""Variations of a scenario and differences are put into words; no number is minus zero."""

import re

import pytest
from compared import rows_of
from conftest import if_all_installed
from test_verdict import lines_of

from fedsim.scenario.sections import ClientCommon, DataCommon, Fleet, Numerics, Spec
from fedsim.study import words


@pytest.mark.parametrize(
    ("label", "text"),
    {
        "fleet.malicious=[0, 3]": "clients 0, 3 malicious",
        "fleet.malicious={count: 5}": "5 malicious",
        "fleet.malicious={share: 0.2, per: round}": "20 % malicious, drawn every round",
        "cohort.size=1, client.epochs=2": "1 client per round, 2 local epochs",
        "data.partition={kind: dirichlet, alpha: 1}": "Dirichlet α = 1",
        "data.partition=dirichlet(alpha=0.1)": "Dirichlet α = 0.1",
        "wire=[]": "no attack",
        "broadcast=[]": "uncompressed",
        "wire[0].scale=5": "sign flip scale 5",
        "wire=[{kind: error_feedback, codec: {kind: top_k, k: 9}}]": "error_feedback(top_k(k=9))",
        "broadcast=[{kind: ef21, codec: cast}]": "ef21(cast) in the broadcast",
        "server[9].trim=4": "server trim 4",
        "a strange label": "a strange label",
        "x=<b>{[": "x <b>{[",
    }.items(),
)  # fmt: skip
def test_a_variation_is_put_into_words(label, text):
    scenario = {
        "data": {"partition": {"kind": "dirichlet"}},
        "wire": [{"kind": "sign_flip"}],
        "client": {"kind": "sgd"},
        "compare": {"vary": {"wire": [[], ["zero"]]}},
    }
    assert words.variation_in_words(label, scenario) == text


@if_all_installed
def test_paths_that_have_a_title_are_keys_of_a_scenario():
    sections = {"data": DataCommon, "client": ClientCommon, "fleet": Fleet, "numerics": Numerics}
    for path in words.TITLES:
        first, *rest = path.split(".")
        assert first in Spec.model_fields
        if len(rest) == 1 and first in sections:
            assert rest[0] in sections[first].model_fields, path


def test_a_tie_is_never_minus_zero():
    rows = rows_of({"tied": [0.5] * 3, "base": [0.5] * 3}, "test_loss")
    text = " ".join(lines_of(rows))
    assert not re.search(r"-0(?![.\d])", text) and "difference +0; better in 0 of 3" in text
    assert words.difference_in_words(-0.0, -0.0, 0.5) == "+0, 95 % CI +0 to +0.5"


def test_a_number_with_a_sign_is_never_minus_zero(root):
    """`z` in a format makes -0 and what rounds to it 0."""
    signed = re.compile(r":\+(?!z)[.,\d]*[fg]\}")
    for file in sorted((root / "fedsim").rglob("*.py")):
        assert not signed.findall(file.read_text(encoding="utf-8")), file
