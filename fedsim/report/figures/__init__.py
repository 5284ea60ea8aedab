"""Figures for papers: from the tables of a run to PNG, SVG and PDF, the same bytes every time.

Importing this imports no matplotlib; drawing does. `fedsim.report.pictures` describes what is
drawn.
"""

from collections.abc import Sequence
from typing import Any

from fedsim.report.figures.attacks import figures_of_attacks as figures_of_attacks
from fedsim.report.figures.costs import figures_of_costs as figures_of_costs
from fedsim.report.figures.curves import figure_of_curves as figure_of_curves
from fedsim.report.figures.curves import pages_of_curves as pages_of_curves
from fedsim.report.figures.differences import pages_of_differences as pages_of_differences
from fedsim.report.figures.drawing import FORMATS as FORMATS
from fedsim.report.figures.drawing import QUICK as QUICK
from fedsim.report.figures.drawing import rendered as rendered
from fedsim.report.figures.partition import figure_of_partition as figure_of_partition
from fedsim.report.figures.scores import figures_of_scores as figures_of_scores


def files_of(
    pages: Sequence[Any], name: str, mark: str = "", formats: Sequence[str] = FORMATS
) -> dict[str, bytes]:
    """Figures as `name.png`, `.svg` and `.pdf`; the second one as `name-2.png` and so on."""
    files = {}
    for number, figure in enumerate(pages, 1):
        files |= rendered(figure, numbered(name, number), mark, formats)
    return files


def numbered(name: str, number: int) -> str:
    """The name of the file of one of several pages or tables, from 1."""
    return name if number == 1 else f"{name}-{number}"
