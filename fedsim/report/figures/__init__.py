"""Figures for papers: from the tables of a run to PNG, SVG and PDF, the same bytes every time.

Importing this imports no matplotlib; drawing does.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from fedsim.report.figures.attacks import figures_of_attacks as figures_of_attacks
from fedsim.report.figures.costs import figures_of_costs as figures_of_costs
from fedsim.report.figures.curves import figure_of_curves as figure_of_curves
from fedsim.report.figures.curves import pages_of_curves
from fedsim.report.figures.differences import figure_of_differences as figure_of_differences
from fedsim.report.figures.differences import pages_of_differences
from fedsim.report.figures.drawing import FORMATS as FORMATS
from fedsim.report.figures.drawing import QUICK as QUICK
from fedsim.report.figures.drawing import rendered as rendered
from fedsim.report.figures.machines import figures_of_machines as figures_of_machines
from fedsim.report.figures.partition import figure_of_partition as figure_of_partition
from fedsim.report.figures.scores import axis_of as axis_of
from fedsim.report.figures.scores import figure_of_scores as figure_of_scores
from fedsim.report.figures.scores import figures_of_scores
from fedsim.study.cost_axes import Axis
from fedsim.study.label_skew import LabelCounts


def curves(
    rounds: pd.DataFrame,
    scenario: Mapping[str, Any],
    order: Sequence[str] | None = None,
    mark: str = "",
    formats: Sequence[str] = FORMATS,
) -> dict[str, bytes]:
    """`figure_of_curves` as `curves.png`, `.svg` and `.pdf`; what does not fit a page as `curves-2.png` and so on."""
    return _paged(pages_of_curves(rounds, scenario, order), "curves", mark, formats)


def attacks(
    summary: Sequence[Mapping[str, Any]],
    scenario: Mapping[str, Any],
    score: str,
    order: Sequence[str] = (),
    mark: str = "",
    formats: Sequence[str] = FORMATS,
) -> dict[str, bytes]:
    """`figures_of_attacks` as `attacks.png`, `.svg` and `.pdf`, the second one as `attacks-2.png` and so on."""
    return _paged(figures_of_attacks([dict(row) for row in summary], scenario, score, order), "attacks", mark, formats)


def partition(
    counts: LabelCounts,
    scenario: Mapping[str, Any],
    seed: int | None = None,
    mark: str = "",
    formats: Sequence[str] = FORMATS,
) -> dict[str, bytes]:
    """`figure_of_partition` as `partition.png`, `.svg` and `.pdf`."""
    return rendered(figure_of_partition(counts, scenario, seed), "partition", mark, formats)


def differences(
    table: pd.DataFrame,
    scenario: Mapping[str, Any],
    order: Sequence[str] = (),
    mark: str = "",
    formats: Sequence[str] = FORMATS,
) -> dict[str, bytes]:
    """`figure_of_differences` as `differences.png`, `.svg` and `.pdf`; likewise on several pages."""
    return _paged(pages_of_differences(table, scenario, order), "differences", mark, formats)


def scores(
    table: pd.DataFrame,
    scenario: Mapping[str, Any],
    start: float | None = None,
    order: Sequence[str] = (),
    mark: str = "",
    formats: Sequence[str] = FORMATS,
) -> dict[str, bytes]:
    """`figures_of_scores` as `scores.png`, `.svg` and `.pdf`, the second one as `scores-2.png` and so on."""
    return _paged(figures_of_scores(table, scenario, start, order), "scores", mark, formats)


def machines(
    table: pd.DataFrame,
    scenario: Mapping[str, Any],
    order: Sequence[str] = (),
    mark: str = "",
    formats: Sequence[str] = FORMATS,
) -> dict[str, bytes]:
    """`figures_of_machines` as `machines.png`, `.svg` and `.pdf`, the second one as `machines-2.png` and so on."""
    return _paged(figures_of_machines(table, scenario, order), "machines", mark, formats)


def costs(
    axis: Axis,
    rows: Sequence[Mapping[str, Any]],
    rounds: pd.DataFrame | None,
    scenario: Mapping[str, Any],
    mark: str = "",
    formats: Sequence[str] = FORMATS,
) -> dict[str, bytes]:
    """`figures_of_costs` as `bytes.png` (or `seconds.png`), `.svg` and `.pdf`, the second one as `bytes-2.png` and so on."""
    return _paged(figures_of_costs(axis, [dict(row) for row in rows], rounds, scenario), axis.table, mark, formats)


def _paged(pages: Sequence[Any], name: str, mark: str, formats: Sequence[str]) -> dict[str, bytes]:
    files = {}
    for number, figure in enumerate(pages, 1):
        files |= rendered(figure, name if number == 1 else f"{name}-{number}", mark, formats)
    return files
