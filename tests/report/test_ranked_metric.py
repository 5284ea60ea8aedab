"""The metric that is ranked comes first wherever curves are drawn, and others follow."""

from test_page_content import SCORES, comparison, summary_of, tables_of

from fedsim.report import figures, notebook_curves, page
from fedsim.report.context import axis_label
from fedsim.report.page import content, gallery, sources
from fedsim.report.page.charts import column_in_words
from fedsim.study.summary import in_words


def test_curves_are_of_the_metric_that_is_ranked():
    """On the page, in figures, in notebooks and on the cards of the gallery; of others behind."""
    metric = "client_accuracy_worst"
    rows = [{**row, "metric": metric} for row in summary_of(SCORES)]
    frames = tables_of(rows)
    half = frames["rounds"]["test_accuracy"] / 2
    frames["rounds"] = frames["rounds"].assign(test_gain=half, **{metric: half})
    source = page.Source(comparison(), frames)
    result = sources.result_of([source])
    words = [each["words"] for each in content.curves_of([source], result)["groups"]]
    assert words[0] == column_in_words(metric) and words[-1] == "test gain"

    figure, *_ = figures.pages_of_curves(frames["rounds"], result.context)
    assert figure.axes[0].get_ylabel() == axis_label(metric)
    assert in_words(metric) in notebook_curves.curves_of(frames["rounds"], result.context)
    card = gallery.card_of(gallery.Entry("name", "", "finished", source))
    assert card["picture"].caption.startswith(column_in_words(metric))
