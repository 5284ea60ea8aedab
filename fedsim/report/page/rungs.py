"""The rungs of a search on the page: a picture for every method and variation."""

from collections.abc import Sequence
from importlib.resources import files

from markupsafe import Markup

from fedsim.report.context import Context
from fedsim.report.figures.rungs import rungs_on_page
from fedsim.report.page.render import fragment
from fedsim.report.pictures.rungs import searches
from fedsim.report.results import Row
from fedsim.study.summary import in_words


def rungs_of(tuning: Sequence[Row], context: Context) -> Markup | None:
    """The section; None where no search has rungs."""
    shown = searches(tuning, context)
    if not shown:
        return None
    return fragment(
        files("fedsim.report.page").joinpath("rungs.html"),
        metric=in_words(shown[0].metric).removeprefix("validation "),
        left_out=sum(search.left_out for search in shown),
        panels=[(search.title, rungs_on_page(search, context)) for search in shown],
    )
