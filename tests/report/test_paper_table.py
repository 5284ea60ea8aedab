"""The table that a paper shows: what stands in it, and that LaTeX takes it."""

import os
import re
import subprocess

import numpy as np
import pytest
from conftest import if_tex

from fedsim.disk.tables import read_table
from fedsim.report.paper_table import paper_table
from fedsim.runs.export import exported
from fedsim.study.pairing import against
from fedsim.study.regression import mean_errors

WITH_VALUES = ["centered_clipping(radius=1.0)", "fedadam(lr=0.001|0.003|0.01)", "multi_krum(f=6)"]
LONG = ["mean", *WITH_VALUES, "median"]
HOSTILE = ["</script>", "$x_1$", "=cmd()", "_hid{den", "\x1b[31mred\n", "猫é~^\\", "%s&#", "x" * 60]


def summary(methods, variants=("",), seeds=10, lost=(), **more):
    """Rows of `summary.csv`: later methods are worse.

    Args:
      methods: in their order.
      variants: labels of the column `variant`.
      seeds: how many there are.
      lost: method, variation and seed of runs that diverged.
      more: cells of every row.
    """
    rng = np.random.default_rng(0)
    rows = []
    for m, method in enumerate(methods):
        for variant in variants:
            for seed in range(seeds):
                row = {"method": method, "seed": seed, "metric": "test_accuracy"}
                if variant:
                    row["variant"] = variant
                if (method, variant, seed) in lost:
                    row |= {"final": None, "diverged": 1, "status": "diverged"}
                else:
                    value = 0.9 - 0.05 * m + 0.01 * rng.normal()
                    row |= {"final": value, "diverged": 0, "status": "done"}
                rows.append({**row, **more})
    return rows


def made(rows, vary=(), **more):
    """The table of some rows, compared with their first method."""
    scenario = {"name": "small", "compare": {"vary": {path: [] for path in vary}}}
    return paper_table(rows, against(rows, rows[0]["method"], "final"), "final", scenario, **more)


def shares(n):
    return [f"fleet.malicious={i / 20:g}" for i in range(n)]


FIRST = "fleet.malicious=0"
CASES = {
    "methods": (summary(LONG), ()),
    "six": (summary(LONG, shares(6)), ["fleet.malicious"]),
    "twelve": (summary([*LONG, *"abcd"], shares(12)), ["fleet.malicious"]),
    "axes": (summary(LONG, ["a=1, b=x", "a=2, b=x"]), ["a", "b"]),
    "lost": (summary(LONG, shares(2), lost={("median", FIRST, 3)}), ["fleet.malicious"]),
    "hostile": (summary(HOSTILE), ()),
    "one": (summary(["fedavg"], rounds_to_target=12, bytes_to_target=3e6), ()),
    "one seed": (summary(LONG, seeds=1), ()),
}


def body(tex):
    """Cells by row, heads first, LaTeX's own marks taken away."""
    rows = []
    for row in re.findall(r"^(?!\\begin|%)(.*) \\\\$", tex, re.M):
        cells = [cell.strip() for cell in row.split(" & ")]
        rows.append([re.sub(r"^{(.*)}$", r"\1", cell) for cell in cells])
    return rows


def test_numbers_are_those_of_the_runs_aligned_on_the_point_and_the_best_is_bold():
    rows = summary(LONG)
    tex = made(rows)
    head, *lines = body(tex)
    assert "{@{}lS[table-format=1.3]@{}lS[table-format=+1.4]S[table-format=1.5]@{}}" in tex
    assert head[1] == "\\multicolumn{2}{c}{test accuracy}" and len(lines) == len(LONG)
    for (name, mean, spread, *_), method in zip(lines, LONG, strict=True):
        values = [row["final"] for row in rows if row["method"] == method]
        assert mean.replace("\\bfseries ", "") == f"{np.mean(values):.3f}"
        assert spread == f"\\,$\\pm$\\,{np.std(values, ddof=1):.3f}"
        assert name.replace("\\_", "_").replace("\\textbar{}", "|") == method
    assert ["\\bfseries" in row[1] for row in lines] == [True] + [False] * 4


def test_what_cannot_be_told_from_the_best_has_a_dagger_and_few_seeds_have_none():
    rows = summary(["a", "b", "far"])
    for row in rows:
        if row["method"] == "b":
            row["final"] = rows[row["seed"]]["final"] + (-1) ** row["seed"] * 0.01 - 0.001
    tex = made(rows)
    daggers = {row[0]: "dagger" in row[2] for row in body(tex)[1:]}
    assert daggers == {"a": False, "b": True, "far": False}
    assert "Dagger: could not be told apart" in tex
    few = made([row for row in rows if row["seed"] < 3])
    assert "dagger" not in few and "There are too few seeds to call any difference sure" in few


def test_the_comment_says_what_it_is():
    rows = summary(LONG)
    first = "% small: final test_accuracy of 10 seeds, 0 to 9, mean +- standard deviation.\n"
    assert made(rows).startswith(first)
    wide = made(rows, spread="interval")
    assert "mean +- half of Student's 95 % interval of the mean." in wide
    values = [row["final"] for row in rows if row["method"] == "mean"]
    half = 2.262157 * np.std(values, ddof=1) / np.sqrt(10)
    (row,) = [row for row in body(wide) if row[0] == "mean"]
    assert row[2] == f"\\,$\\pm$\\,{half:.3f}"
    assert all(line.startswith("% ") for line in made(rows).splitlines()[:4])


def test_a_regression_has_r2_and_mae():
    rows = summary(["base", "good"], seeds=3, metric="test_loss")
    errors = {"round": 1, "test_mae": 12.25}
    rounds = [{**row, **errors, "test_r2": 0.5 - row["seed"] / 10} for row in rows]
    tex = made(rows, errors=mean_errors(rounds, "test_loss"))
    head, *lines = body(tex)
    assert head[1:4] == ["\\multicolumn{2}{c}{test loss}", "R$^2$", "MAE"]
    assert [line[3:5] for line in lines] == [["0.4", "12.25"]] * 2
    assert "difference" in " ".join(head)


def test_variations_are_columns_each_with_its_value():
    tex = made(summary(LONG, ["a=1, b=x", "a=2, b=x"]), ["a", "b"])
    first, second, *rows = body(tex)
    assert first == ["a", "\\multicolumn{2}{c}{1}", "\\multicolumn{2}{c}{2}"]
    assert second == ["b", "\\multicolumn{2}{c}{x}", "\\multicolumn{2}{c}{x}"]
    assert len(rows) == len(LONG)


def test_runs_without_a_score_are_counted():
    lost = {("median", FIRST, 3), *(("mean", "fleet.malicious=0.05", seed) for seed in range(10))}
    tex = made(summary(LONG, shares(2), lost=lost), ["fleet.malicious"])
    rows = {row[0]: row[1:] for row in body(tex)}
    assert rows["median"][1].endswith("$^{9/10}$")
    assert rows["mean"][2:] == ["", "diverged"]
    assert "Raised 8/10" in tex


@pytest.mark.parametrize("name", CASES)
def test_every_line_can_be_printed(name):
    assert all(line.isprintable() for line in made(*CASES[name]).split("\n"))


def test_many_variations_are_in_blocks():
    six = body(made(*CASES["six"]))
    assert [row[0] for row in six].count("fleet.malicious") == 2
    assert len(body(made(*CASES["lost"]))) == 1 + len(LONG)


def typeset(folder, name):
    """What LaTeX says of a file, which it sets without an overfull box."""
    line = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", name]
    environment = {**os.environ, "SOURCE_DATE_EPOCH": "0"}
    done = subprocess.run(line, cwd=folder, env=environment, capture_output=True, errors="replace")
    assert done.returncode == 0 and "Overfull" not in done.stdout, done.stdout[-2000:]
    return done.stdout


PAGE = r"""\documentclass[twocolumn,a4paper]{article}
\usepackage{booktabs}
\usepackage{siunitx}
\begin{document}
\begin{table*}\centering
\input{summary}\caption{Scores.}\end{table*}
\end{document}
"""


@pytest.mark.long
@if_tex
@pytest.mark.parametrize("name", CASES)
def test_it_compiles_in_a_two_column_article_without_an_overfull_box(name, tmp_path):
    (tmp_path / "summary.tex").write_text(made(*CASES[name]))
    (tmp_path / "page.tex").write_text(PAGE)
    typeset(tmp_path, "page")


def test_export_takes_the_spread(root):
    sd, interval = (
        exported(root / "reports/rules", None, "latex", spread=name).decode()
        for name in ("sd", "interval")
    )
    assert "standard deviation" in sd and "95 % interval" in interval and sd != interval
    means = [row[:2] for row in body(sd)]
    assert len(means) == 8 and [row[0] for row in body(interval)] == [row[0] for row in means]
    rows = read_table(root / "reports/rules", "summary").set_index(["method", "variant"])
    krum = rows.loc[("krum(f=6)", FIRST), "final"]
    (line,) = [row for row in body(sd) if row[0].startswith("krum")]
    assert line[1] == f"{np.mean(krum):.3f}"
    text = exported(root / "reports/rules", None, "markdown", spread="interval").decode()
    half = 2.262157 * np.std(krum, ddof=1) / np.sqrt(10)
    assert f"| krum(f=6) | {FIRST} | 10 | {np.mean(krum):.4f} ± {half:.4f} |" in text
