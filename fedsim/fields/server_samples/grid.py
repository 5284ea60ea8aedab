"""Comparisons of rules that read samples of the server with others."""

import contextlib
from typing import Any

from fedsim.assemble.links import factory_of
from fedsim.fields.server_samples import NEEDS
from fedsim.scenario import read
from fedsim.scenario.reader import Document
from fedsim.study.cells import Cell
from fedsim.study.methods import text_of


def as_read(document: Document, cells: list[Cell]) -> list[Cell]:
    """Return the cells, such that the server keeps the same samples in all of them.

    A server that keeps samples that its rule does not read is refused. In a comparison some rules
    may read them, and the others still have to train on the same samples. So each cell whose rule
    does not read them is read again, with the rules that do in its `compare.methods`.
    """
    rules = [_rule_that_reads(cell.scenario.spec) for cell in cells]
    reading_rules = sorted(set(rules) - {""})
    edit = f"compare.methods={text_of(reading_rules)}"
    cells_of_one_split = []
    for cell, rule in zip(cells, rules, strict=True):
        if cell.scenario.spec.data.server.samples > 0 and not rule:
            edits = (*cell.edits, edit)
            cell = cell._replace(edits=edits, scenario=read(document, edits, cell.definition))
        cells_of_one_split.append(cell)
    return cells_of_one_split


def _rule_that_reads(spec: Any) -> str:
    """The kind of the rule, if the server keeps samples and the rule reads them; else empty."""
    if spec.data.server.samples == 0:
        return ""
    rule = next(link for link in spec.server if link.family == "rule")
    # A rule that cannot be made is refused when its cell is built.
    with contextlib.suppress(ValueError):
        if factory_of(rule)().needs & set(NEEDS):
            return rule.kind
    return ""
