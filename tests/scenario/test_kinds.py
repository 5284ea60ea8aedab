"""`shipped.json` describes fedsim's kinds as their factories do."""

import csv
import json
from inspect import getdoc, signature

from conftest import if_all_installed

from fedsim.kinds import FAMILIES
from fedsim.kinds.shipped import (
    FILE,
    Shipped,
    described,
    homes,
    is_codec,
    is_rule,
    is_server_links,
    load_factories,
)
from fedsim.scenario import index, schema, sections
from fedsim.scenario.annotations import item_of, kinds_of

CONTENTS = {
    home: json.loads((folder / FILE).read_text(encoding="utf-8"))
    for home, folder in homes().items()
}
KINDS: dict = {}  # family -> kind -> its entry
for _contents in CONTENTS.values():
    for _family, _kinds in _contents["kinds"].items():
        KINDS.setdefault(_family, {}).update(_kinds)


def test_the_files_are_up_to_date():
    assert described() == CONTENTS, "renew it: python -m fedsim.kinds"


@if_all_installed
def test_the_index_of_fields_is_up_to_date():
    with index.FILE.open(encoding="utf-8", newline="") as lines:
        known = [tuple(row) for row in csv.reader(lines)][1:]
    assert known == list(index.rows()), "renew it: python -m fedsim.scenario.index"


def test_a_kind_has_the_signature_and_docstring_of_its_factory():
    load_factories()

    def typed(annotation):  # those of codecs, rules and tokenizers are written as nouns
        if is_codec(annotation):
            return "codec"
        if is_server_links(annotation):
            return "links"
        if "Tokenizer" in str(annotation):
            return "tokenizer"
        return "rule" if is_rule(annotation) else annotation

    def plain(factory):
        parameters = signature(factory, eval_str=True).parameters.values()
        return [(p.name, typed(p.annotation), p.default) for p in parameters]

    for family, kinds in KINDS.items():
        for name, known in kinds.items():
            shipped, factory = Shipped(family, name, **known), FAMILIES[family][name]
            assert plain(shipped) == plain(factory), (family, name)
            assert getdoc(shipped) == (getdoc(factory) or "")
            assert shipped.__module__ == factory.__module__
    constant = Shipped("schedule", "constant_schedule", **KINDS["schedule"]["constant_schedule"])
    assert constant(value=0.5)(3) == 0.5  # it can be called before it is imported


def test_a_scenario_makes_only_the_models_of_its_own_kinds():
    fresh = schema.AllowedKinds(*kinds_of(item_of(sections.ServerList)).families)
    assert [kind.name for kind in fresh if "model" in vars(kind)] == []
    for link in ({"kind": "clip", "norm": 1.0}, {"kind": "adam", "lr": 0.1}):
        fresh.validate(link)
    assert {kind.name for kind in fresh if "model" in vars(kind)} == {"clip", "adam"}
