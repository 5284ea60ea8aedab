"""Figures for papers: from the tables of a run to PNG, SVG and PDF, the same bytes every time.

Importing this imports no matplotlib; drawing does.
"""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from fedsim.report.figures.curves import figure_of_curves as figure_of_curves
from fedsim.report.figures.differences import figure_of_differences as figure_of_differences
from fedsim.report.figures.drawing import rendered as rendered
from fedsim.report.figures.partition import figure_of_partition as figure_of_partition
from fedsim.study.label_skew import LabelCounts


def curves(rounds: pd.DataFrame, scenario: Mapping[str, Any], mark: str = "") -> dict[str, bytes]:
    """`figure_of_curves` as `curves.png`, `.svg` and `.pdf`."""
    return rendered(figure_of_curves(rounds, scenario), "curves", mark)


def partition(
    counts: LabelCounts, scenario: Mapping[str, Any], seed: int | None = None, mark: str = ""
) -> dict[str, bytes]:
    """`figure_of_partition` as `partition.png`, `.svg` and `.pdf`."""
    return rendered(figure_of_partition(counts, scenario, seed), "partition", mark)


def differences(table: pd.DataFrame, scenario: Mapping[str, Any], mark: str = "") -> dict[str, bytes]:
    """`figure_of_differences` as `differences.png`, `.svg` and `.pdf`."""
    return rendered(figure_of_differences(table, scenario), "differences", mark)
