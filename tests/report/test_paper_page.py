"""The paper in `reports/paper`: its table follows from the scores, its words are true."""

import re
import shutil
import subprocess

import pytest
import yaml
from conftest import if_tex
from test_paper_table import typeset

from fedsim.disk.tables import read_table, to_csv
from fedsim.report.paper_table import paper_table
from fedsim.report.results import rows_of
from fedsim.runs.comparison import columns_of
from fedsim.study.breakdown import breakdown_point, untrained_scores
from fedsim.study.conclusions import conclusions

VARIED = "fleet.malicious"


@pytest.fixture(scope="module")
def kept(root):
    """The folder, its tables, and its scenario."""
    folder = root / "reports/paper"
    tables = {name: read_table(folder, name) for name in ("rounds", "summary", "compare")}
    return folder, tables, yaml.safe_load((folder / "scenario.yaml").read_text())


def test_the_table_follows_from_the_scores(kept):
    folder, tables, scenario = kept
    rows = rows_of(tables["summary"]), rows_of(tables["compare"])
    assert (folder / "tables/summary.tex").read_text() == paper_table(*rows, "final", scenario)


@pytest.mark.long
def test_what_is_compared_follows_from_the_scores(kept):
    summary = rows_of(read_table(kept[0], "summary", text=[VARIED]))
    compare = conclusions(summary, [], "mean", "final", [VARIED])["compare"]
    assert (kept[0] / "compare.csv").read_text() == to_csv(compare, columns_of("compare", [VARIED]))


def test_the_words_are_true(kept):
    folder, tables, _ = kept
    text = " ".join((folder / "paper.tex").read_text().split())
    (start,) = set(untrained_scores(rows_of(tables["rounds"]), "test_accuracy").values())
    points, means = {}, {}
    for method, rows in tables["compare"].sort_values(VARIED).groupby("method"):
        values, means[method] = rows[VARIED].tolist(), rows["mean"].tolist()
        points[method] = breakdown_point(
            values, means[method], rows["sd"].tolist(), rows["seeds"].tolist(), start, True
        )
    medians = {"median": 0.5, "geometric_median": 0.5}
    others = {"mean": 0.2, "trimmed_mean(trim=6)": 0.3, "multi_krum(f=6)": 0.4}
    assert points == others | medians
    assert "the mean at 0.2, the trimmed mean at 0.3, multi-Krum at 0.4, " in text
    assert "the median and the geometric median at 0.5" in text
    best = [max(means, key=lambda method: means[method][place]) for place in range(6)]
    assert best == ["mean", "multi_krum(f=6)", "multi_krum(f=6)", *["geometric_median"] * 3]
    table = (folder / "tables/summary.tex").read_text().splitlines()
    names = [re.search(r"(\w+)\\_(\w+)", line)[0] for line in table if "dagger" in line]
    assert sorted(names) == ["geometric\\_median", "multi\\_krum", "trimmed\\_mean"]


@pytest.mark.long
@if_tex
def test_the_page_is_set_without_an_overfull_box(kept, tmp_path):
    shutil.copytree(kept[0], tmp_path / "paper")
    (tmp_path / "paper/paper.pdf").unlink()
    typeset(tmp_path / "paper", "paper")
    assert "1 page" in typeset(tmp_path / "paper", "paper")  # which knows its references
    if shutil.which("pdftotext"):
        words = ["pdftotext", "-layout", "paper.pdf", "-"]
        one, other = (
            subprocess.run(words, cwd=folder, capture_output=True, text=True).stdout
            for folder in (kept[0], tmp_path / "paper")
        )
        assert one == other and "Aggregation rules" in one
