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
from fedsim.scenario import index, read, schema, sections
from fedsim.scenario.annotations import item_of, kinds_of
from fedsim.scenario.shorthand import call_of

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

    plain = lambda parameters: [
        (p.name, typed(p.annotation), p.default) for p in parameters.values()
    ]
    for family, kinds in KINDS.items():
        for name, known in kinds.items():
            shipped, factory = Shipped(family, name, **known), FAMILIES[family][name]
            ours, theirs = (
                plain(signature(f, eval_str=True).parameters) for f in (shipped, factory)
            )
            assert ours == theirs, (family, name)
            assert getdoc(shipped) == (getdoc(factory) or "")
            assert shipped.__module__ == factory.__module__


def test_a_kind_that_is_not_imported_can_be_called_like_its_factory():
    shipped = Shipped("schedule", "constant_schedule", "fedsim.clients.schedules", "", {})
    assert shipped(value=0.5)(3) == FAMILIES["schedule"]["constant_schedule"](value=0.5)(3)


def test_a_scenario_makes_only_the_models_of_its_own_kinds():
    values = {
        "name": "x",
        "data": {"kind": "digits", "partition": "dirichlet(alpha=0.3)"},
        "wire": [{"kind": "error_feedback", "codec": {"kind": "top_k", "k": 3}}],
        "server": ["clip(norm=1.0)", "krum(f=1)", {"kind": "adam", "lr": 0.1}],
    }
    links = kinds_of(item_of(sections.ServerList))
    fresh = schema.AllowedKinds(*links.families)
    assert [kind.name for kind in fresh if "model" in vars(kind)] == []
    for link in values["server"]:
        fresh.validate(call_of(link) if isinstance(link, str) else link)
    assert {kind.name for kind in fresh if "model" in vars(kind)} == {"clip", "krum", "adam"}
    assert [link.kind for link in read(values).spec.server] == ["clip", "krum", "adam"]
