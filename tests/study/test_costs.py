"""What scores cost in bytes and virtual seconds: tables, sentences, pictures, page."""

import json
import math
import re
import shutil
from itertools import product

import numpy as np
import pandas as pd
import pytest
from conftest import ROOT
from scipy import stats
from test_page_content import comparison

from fedsim.disk import tables
from fedsim.errors import ScenarioError
from fedsim.report import figures
from fedsim.report.context import context_of
from fedsim.report.derived import derived_files
from fedsim.report.page.charts import lower_axes
from fedsim.report.pictures.costs import cost_pictures
from fedsim.runs.checks import of_comparison
from fedsim.scenario import read
from fedsim.study.claims import IN_TIME, SAME_SCORE
from fedsim.study.conclusions import conclusions
from fedsim.study.cost_axes import BYTES, TIME, is_about_cost, timed
from fedsim.study.findings import findings_of
from fedsim.study.methods import methods_of
from fedsim.study.statistics import holm, interval
from fedsim.study.verdict import verdict
from fedsim.study.words import call_of

TOP_K = {"kind": "error_feedback", "codec": {"kind": "top_k", "k": 9}}
REPORTS = ROOT / "reports"
SCORES = {"dense": 0.9, "cast": 0.899, "top_k": 0.7, "bad": 0.6}
UP = {"dense": 400, "cast": 200, "top_k": 10, "bad": 300}
CLOCK = {"dense": 8.0, "cast": 2.0, "top_k": 1.0, "bad": 2.0}  # seconds of a round
ABOUT_BYTES = {"vary": {"wire": [[], ["cast"]]}}
FLEET = {
    "fleet": {"deadline": 9.0},
    "evaluate": {"target": 0.65},
    "compare": {"vary": {"fleet.deadline": [1, 9]}},
}


def summary(seeds: int = 6) -> list[dict]:
    """Runs of four methods; `top_k` reaches the target under half of the seeds, `bad` never."""
    rows = []
    for method, seed in product(SCORES, range(seeds)):
        arrives = method in ("dense", "cast") or (method == "top_k" and seed % 2)
        score = SCORES[method] + 0.004 * (-1) ** (seed + len(method))
        row = {"method": method, "seed": seed, "metric": "test_accuracy", "diverged": 0}
        row |= dict.fromkeys(("final", "best", "mean_last_k"), score)
        row["rounds_to_target"] = 2 if arrives else None
        row["bytes_to_target"] = 1000.0 * UP[method] + seed if arrives else None
        rows.append(row)
    return rows


def close(runs: list[dict]) -> list[dict]:
    """Runs with a tenth of their noise."""
    return [{**row, "final": 0.9 * SCORES[row["method"]] + 0.1 * row["final"]} for row in runs]


def rounds(seeds: int = 6) -> list[dict]:
    """Ten clients per round, three rounds; dense models down."""
    rows = []
    for method, seed, number in product(SCORES, range(seeds), range(4)):
        row = {
            "method": method,
            "seed": seed,
            "round": number,
            "bytes_up": 10 * number * UP[method],
            "bytes_down": 4000 * number,
            "clients_sampled": 10 if number else 0,
            "virtual_seconds": float(number),
            "test_loss": 1.0,
            "test_accuracy": SCORES[method] * number / 3,
        }
        rows.append(row)
    return rows


def concluded(runs, courses, baseline="dense") -> dict[str, list[dict]]:
    """All tables of a comparison with these runs."""
    follow = conclusions(runs, [], baseline, "final", [], courses)
    return {**follow, "summary": runs, "rounds": courses}


def of_bytes(runs=None, courses=None) -> dict[str, dict]:
    """The rows of `bytes.csv` by method."""
    rows = concluded(runs or summary(), courses or rounds())["bytes"]
    return {row["method"]: row for row in rows}


# ---------------------------------------------------------------------------------------- the table


def test_rows_hold_scores_bytes_targets_and_the_front():
    """A seed that never reached the target counts as infinite, a message of what arrives."""
    runs = summary()
    rows = of_bytes(runs)
    cast = rows["cast"]
    values = np.array([run["final"] for run in runs if run["method"] == "cast"])
    ends = cast["mean"], cast["ci_low"], cast["ci_high"]
    assert ends == pytest.approx((values.mean(), *interval(values)))
    assert (cast["bytes_up"], cast["bytes_down"]) == (6000, 12000)
    assert (cast["up_per_client_round"], cast["down_per_client_round"]) == (200, 400)
    assert [row["front"] for row in rows.values()] == [1, 1, 1, 0]
    assert set(cast) == set(tables.BYTES)

    lost = [{**r, "clients_late": 0, "clients_reported": 5 if r["round"] else 0} for r in rounds()]
    assert of_bytes(runs, lost)["dense"]["up_per_client_round"] == 800

    assert (rows["dense"]["bytes_to_target"], rows["dense"]["reached"]) == (400_002.5, 6)
    columns = ("reached", "bytes_to_target", "target_low", "target_high")
    assert [rows["top_k"][name] for name in columns] == [3, math.inf, 10_001, math.inf]
    assert [rows["bad"][name] for name in columns] == [0, math.inf, math.inf, math.inf]
    text = tables.to_csv(list(rows.values()), tables.BYTES)
    assert ",inf," in text and "nan" not in text


def test_the_front_is_what_no_other_row_beats():
    rng = np.random.default_rng(0)
    pairs = rng.integers(0, 6, (40, 2)).astype(float).tolist()
    runs, courses = [], []
    for number, (loss, sent) in enumerate(pairs):
        run = {"method": f"m{number}", "seed": 0}
        runs.append({**run, "metric": "test_loss", "final": loss, "diverged": 0})
        courses.append({**run, "round": 1, "bytes_up": sent, "bytes_down": 1, "clients_sampled": 1})
        courses[-1] |= {"virtual_seconds": 1.0, "test_loss": loss}
    rows = of_bytes(runs, courses)
    for number, (loss, sent) in enumerate(pairs):
        beaten = any((a < loss and b <= sent) or (a <= loss and b < sent) for a, b in pairs)
        assert bool(rows[f"m{number}"]["front"]) is not beaten


def test_equal_message_sizes_leave_a_table_of_targets_alone():
    same = [{**row, "bytes_up": 10 * row["round"]} for row in rounds()]
    found = concluded(summary(), same)
    rows = found["bytes"]
    assert len(rows) == 4
    assert "front" not in rows[0]
    assert rows[0]["reached"] == 6
    assert figures.figures_of_costs(BYTES, rows, pd.DataFrame(same), context_of({})) == []
    assert "bytes" not in said(found, ABOUT_BYTES).lines[0]
    without_target = [{**row, "bytes_to_target": None} for row in summary()]
    assert concluded(without_target, same)["bytes"] == []


def test_a_diverged_run_counts_as_the_worst_and_a_failed_one_not_at_all():
    runs = summary()
    for run in runs:
        if run["method"] == "dense":
            run |= {"diverged": 1, "final": None}
        if run["method"] == "bad":
            run["status"] = "failed"
    rows = of_bytes(runs)
    assert rows.keys() == {"dense", "cast", "top_k"} and rows["dense"]["mean"] == 0.0


# ----------------------------------------------------------------------------- over virtual seconds


def clocked(seeds: int = 6) -> list[dict]:
    """`dense` takes longest; under seed 0 everything takes twice as long."""
    rows = rounds(seeds)
    for row in rows:
        row["virtual_seconds"] = row["round"] * CLOCK[row["method"]]
        if row["seed"] == 0:
            row["virtual_seconds"] *= 2
    return rows


def aimed(seeds: int = 6) -> list[dict]:
    rows = summary(seeds)
    for row in rows:
        end = 3 * CLOCK[row["method"]]
        row["virtual_seconds_to_target"] = end if row["bytes_to_target"] else None
    return rows


def of_seconds(runs, courses) -> dict[str, dict]:
    """The rows of `seconds.csv` by method."""
    return {row["method"]: row for row in concluded(runs, courses)["seconds"]}


def test_rows_of_seconds_hold_scores_in_equal_time():
    """The first run of a seed ends after three seconds, before which `dense` only starts."""
    found = of_seconds(aimed(), clocked())
    rows = list(found.values())
    assert {name for row in rows for name in row} == set(tables.SECONDS)
    assert [row["virtual_seconds"] for row in rows] == pytest.approx([28.0, 7.0, 3.5, 7.0])
    assert [row["in_time"] for row in rows] == pytest.approx([0, 0.899 / 3, 0.7, 0.2])
    assert [row["front"] for row in rows] == [1, 1, 1, 0]
    half = found["top_k"]
    assert (half["reached"], half["virtual_seconds_to_target"]) == (3, math.inf)
    assert half["target_low"] == 3.0
    assert of_seconds(aimed(), rounds()) == {}  # where all take as long


def test_a_diverged_run_does_not_limit_the_time():
    runs = [{**row, "diverged": int(row["method"] == "top_k")} for row in aimed()]
    rows = of_seconds(runs, clocked())
    assert rows["top_k"]["in_time"] == 0.0
    assert rows["cast"]["in_time"] == pytest.approx(0.899)
    assert rows["dense"]["in_time"] == 0.0  # a round takes 8 seconds, and `cast` ends after 6


def test_sentences_are_about_seconds_where_machines_decide_them():
    few = concluded(aimed(), clocked())
    about = said(few, **FLEET)
    # 3 * 2 / 2**6 is too large
    assert about.lines[0] == "In equal time, none clearly beats dense."
    assert about.lines[1].startswith("Top_k: test accuracy 0.700 against 0.000, difference +0.7")
    assert not claims_of(about, IN_TIME)
    assert "In equal time" not in " ".join(said(few).lines)

    about = said(concluded(aimed(8), clocked(8)), **FLEET)
    assert about.lines[0] == "In equal time, top_k beats dense: test accuracy 0.700."
    assert about.main_number == ("test accuracy", "0.700")
    assert [(one.who, one.p) for one in claims_of(about, IN_TIME)] == [("top_k", 3 * 2 / 2**8)]


def test_curves_over_seconds_are_means_at_the_same_rounds():
    rows = concluded(aimed(), clocked())["seconds"]
    context = context_of({"name": "seconds", **FLEET})
    (figure,) = figures.figures_of_costs(TIME, rows, pd.DataFrame(clocked()), context)
    above, below = figure.axes
    x, y = next(line for line in above.lines if line.get_label() == "cast").get_data()
    assert list(x) == pytest.approx([7 / 3, 14 / 3, 7.0])
    assert list(y) == pytest.approx([0.899 / 3, 2 * 0.899 / 3, 0.899])
    assert below.get_xlabel() == "virtual seconds to test accuracy 0.65"
    marks = [line.get_xdata()[0] for line in below.lines if line.get_label() == "mark"]
    assert sorted(marks) == [6.0, 24.0]  # half of the seeds of `top_k` never get there


# ------------------------------------------------------------------------------------- in sentences


def said(found, compare=None, **scenario):
    """The verdict on tables, under a scenario with a section `compare`."""
    return verdict(findings_of(found, "dense", "final", {**scenario, "compare": compare}))


def about_bytes(runs, **compare):
    """The verdict on runs of a comparison that is about bytes."""
    return said(concluded(runs, rounds()), {**ABOUT_BYTES, **compare})


def claims_of(about, kind=SAME_SCORE):
    return [claim for claim in about.claims if claim.kind == kind]


def test_the_first_sentence_says_what_can_be_saved():
    about = about_bytes(close(summary()))
    headline, statistics, *_ = about.lines
    assert headline == "cast sends 2 times fewer bytes up than dense, at the same test accuracy."
    assert about.main_number == ("fewer bytes", "2 times")
    assert re.fullmatch(
        r"Test accuracy 0\.\d+ against 0\.\d+, difference [-+]\S+, 95 % CI -\S+ to [-+]\S+; "
        r"less than 0\.01 worse, p = \S+ after Holm\.",
        statistics,
    )


def test_the_same_score_is_claimed_where_the_interval_ends_above_the_margin():
    """By SciPy, for every cheaper row, after Holm over them."""
    runs = close(summary())
    scores = {m: np.array([r["final"] for r in runs if r["method"] == m]) for m in SCORES}
    test = stats.ttest_1samp(scores["cast"] - scores["dense"], -0.01, alternative="greater")
    (claim,) = claims_of(about_bytes(runs))
    assert (claim.who, claim.whom) == ("cast", "dense")
    # the others are far below
    assert claim.p == pytest.approx(holm([2 * test.pvalue, 1.0, 1.0])[0])
    ends = stats.ttest_rel(scores["cast"], scores["dense"]).confidence_interval(0.95)
    for margin, wanted in ((0.01, True), (2 * -ends.low, True), (0.99 * -ends.low, False)):
        assert bool(claims_of(about_bytes(runs, margin=margin))) is wanted, margin
    with pytest.raises(ScenarioError, match=r"compare\.margin: "):
        read({"name": "margins", "data": "digits", "compare": {"margin": -0.001}})
    kept = read({"name": "margins", "data": "digits", "compare": {"margin": 0}}).resolved()
    assert kept["compare"]["margin"] == 0


def test_without_significance_a_score_may_be_as_much_worse_as_its_interval_allows():
    """Numbers that were once reported as the same: 0.664 and 0.731, 95 % CI -0.135 to +0.002."""
    runs = summary()
    for row in runs:
        row["final"] = {"dense": 0.731, "cast": 0.664}.get(row["method"], 0.3)
        row["final"] += 0.0595 * (-1) ** row["seed"] * (row["method"] == "cast")
    about = about_bytes(runs)
    assert about.lines[0] == "No saving in bytes up is shown at the test accuracy of dense."
    assert re.fullmatch(
        r"Cast, 2 times fewer: test accuracy 0\.664 against 0\.731, "
        r"difference -0\.067, 95 % CI -0\.13\d+ to \+0\.00\d+\.",
        about.lines[1],
    )
    assert not claims_of(about) and about.main_number is None


def test_equal_scores_under_few_seeds_are_no_claim():
    """As with codecs that lose nothing: six seeds are too few for three cheaper methods."""
    runs = close(summary())
    dense = {row["seed"]: row["final"] for row in runs if row["method"] == "dense"}
    for row in runs:
        if row["method"] == "cast":
            row["final"] = dense[row["seed"]]
    about = about_bytes(runs)
    assert "No saving" in about.lines[0] and not claims_of(about)
    assert about.lines[1].endswith("test accuracy 0.900 against 0.900, difference +0.")


def test_the_margin_of_a_loss_is_a_hundredth_of_the_baseline_s():
    runs = close(summary())
    for row in runs:
        row |= {"metric": "test_loss", "final": 10 * (1.9 - row["final"])}
    statistics = about_bytes(runs).lines[1]
    assert statistics.startswith("Test loss 10 against 10, difference ")
    assert "less than 0.1 worse" in statistics
    assert not claims_of(about_bytes(runs, margin=0.001))


def test_holm_runs_over_the_tables_of_bytes_and_of_seconds():
    """Equal scores are one test in both tables; more rows in a table are more tests."""
    both = concluded(close(aimed()), clocked())
    few = [row for row in both["bytes"] if row["method"] in ("dense", "cast")]
    alone = {**both, "seconds": []}
    claims = [
        claims_of(said({**found, "bytes": few}, ABOUT_BYTES, fleet=FLEET["fleet"]))[0]
        for found in (alone, both)
    ]
    assert claims[1].p == pytest.approx(3 * claims[0].p)


# ------------------------------------------------------------------------------------------- names


def groups(axis, variants, methods=("fedavg",)) -> dict[str, list[str]]:
    """Names of the rows that are compared with each other, by what else varies."""
    runs, courses = [], []
    for number, (method, variant) in enumerate(product(methods, variants), 1):
        run = {"method": method, "variant": variant, "seed": 0}
        runs.append({**run, "metric": "test_accuracy", "final": 0.5, "diverged": 0})
        spent = {"bytes_up": 10 * number, "bytes_down": 1, "virtual_seconds": float(number)}
        courses.append({**run, "round": 1, "clients_sampled": 1, "test_accuracy": 0.5, **spent})
    rows = concluded(runs, courses, "fedavg")[axis.table]
    pictures = cost_pictures(axis, rows, "fedavg", context_of({}, runs))
    return {picture.title: [point.name for point in picture.points] for picture in pictures}


def test_rows_of_one_method_are_named_by_their_codecs():
    wires = ["[]", "[cast]", "[{kind: error_feedback, codec: {kind: top_k, k: 9}}]"]
    variants = [f"wire={wire}, client.lr={lr}" for wire, lr in product(wires, (1, 2))]
    # the front first, then the most expensive
    names = ["nothing", "error_feedback(top_k(k=9))", "cast"]
    rates = ["client learning rate 1", "client learning rate 2"]
    assert groups(BYTES, variants) == dict.fromkeys(rates, names)
    more = groups(BYTES, variants, ["fedavg", "scaffold"])
    assert "fedavg, cast" in more[rates[0]]


def test_settings_of_a_round_are_compared_and_machines_are_not():
    variants = [f"fleet.deadline={t}, fleet.speed={kind}" for t, kind in product((1, 2), "ab")]
    in_time = groups(TIME, variants)
    assert len(in_time) == 2
    assert set(map(tuple, in_time.values())) == {("deadline 1 s", "deadline 2 s")}


def test_a_comparison_is_about_bytes_where_codecs_differ_and_about_time_where_rounds_do():
    (method,) = methods_of([{"method": "fedavg", "set": {"wire": [TOP_K]}}])
    assert method.label == "fedavg[wire=error_feedback(top_k(k=9))]"
    assert call_of([TOP_K, "cast"]) == "error_feedback(top_k(k=9)) → cast"
    assert call_of([]) == "as sent"
    for compare, wanted in (
        ({"methods": [method.entry]}, True),
        ({"methods": ["fedavg"]}, False),
        ({"vary": {"wire": ["[]", "[cast]"]}}, True),
        ({"vary": {"wire": ["[]", "[sign_flip]"]}}, False),
        ({"vary": {"wire": ["[cast, sign_flip]"]}}, False),
        (None, False),
    ):
        assert is_about_cost(BYTES, {"compare": compare}) is wanted, compare
    assert timed({"compare": {"vary": {"schedule": ["sync", "fedbuff"]}}})
    assert not is_about_cost(TIME, {"fleet": {"deadline": 9.0}})


# ---------------------------------------------------------------------------- pictures and the page


def test_the_figure_has_curves_and_a_front():
    """Points that coincide share their numbers."""
    twins = [{**row, "method": "twin"} for row in summary() if row["method"] == "cast"]
    again = [{**row, "method": "twin"} for row in rounds() if row["method"] == "cast"]
    sent = rounds() + again
    rows = concluded(summary() + twins, sent)["bytes"]
    context = context_of({"name": "bytes"})
    (figure,) = figures.figures_of_costs(BYTES, rows, pd.DataFrame(sent), context)
    above, below = figure.axes
    curves = {line.get_label(): line for line in above.lines}
    assert set(curves) == {*SCORES, "twin"}
    assert above.get_xscale() == below.get_xscale() == "log"
    x, y = curves["cast"].get_data()
    assert list(x) == [2000, 4000, 6000]
    assert list(y) == pytest.approx([0.899 / 3, 0.899 * 2 / 3, 0.899])
    front = next(line for line in below.lines if line.get_label() == "front")
    assert list(front.get_xdata()) == [10, 200, 200, 400]
    hollow = {line.get_label() for line in below.lines if line.get_markerfacecolor() == "white"}
    assert hollow & set(SCORES) == {"bad"}
    legend = [text.get_text() for text in figure.legends[0].get_texts()]
    assert sorted(filter(None, legend)) == ["1 dense", "2 cast", "3 top_k", "4 bad", "5 twin"]
    assert "2, 5" in {text.get_text() for text in below.texts}


@pytest.fixture(scope="module")
def files():
    """The page and the tables for papers; two methods have codecs with an entropy code."""
    found = concluded(summary(), rounds())
    frames = {name: pd.DataFrame(rows) for name, rows in found.items() if rows}
    sent = frames["rounds"]
    for name, column, size in (("cast", "a", 7.0), ("top_k", "b", 9.0)):
        has = (sent["method"] == name) & (sent["round"] > 0)
        sent[f"{column}/entropy_bytes"] = np.where(has, size, np.nan)
    made = derived_files(frames, comparison(baseline="dense"), drawn=())
    return {name: content.decode() for name, content in made.items()}


def markdown(text: str) -> list[dict[str, str]]:
    """The rows of the table in a Markdown file."""
    head, _, *rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in text.splitlines()
        if line.startswith("|")
    ]
    return [dict(zip(head, row, strict=True)) for row in rows]


def test_the_table_of_a_paper_names_the_front_and_the_saving(files):
    rows = markdown(files["tables/bytes.md"])
    assert [row["method"] for row in rows] == ["dense", "cast", "top_k", "bad"]
    assert [row["× fewer"] for row in rows] == ["baseline", "2", "40", "1.33"]
    assert [row["front"] for row in rows] == ["yes"] * 3 + [""]
    assert (rows[2]["reached"], rows[2]["MB to target"]) == ("3 of 6", "∞ (0.01 to ∞)")
    assert rows[1]["up"] == "200 bytes"


def test_mb_to_target_is_one_number_in_every_table(files):
    """The median over all runs, in the tables of costs and of results, and in those of papers."""
    costs = {row["method"]: row["MB to target"] for row in markdown(files["tables/bytes.md"])}
    medians = {name: text.split(" (")[0] for name, text in costs.items()}
    assert medians == {"dense": "0.4", "cast": "0.2", "top_k": "∞", "bad": "∞"}
    scores = {row["method"]: row["MB to target"] for row in markdown(files["tables/summary.md"])}
    assert scores == {**medians, "top_k": "∞ (3 of 6)", "bad": "not reached"}
    assert re.search(r"^dense .*& 2 & 0\.4 ", files["tables/summary.tex"], re.M)
    page = files["report.html"]
    table = page[page.index('id="table"') : page.index('id="curves"')]
    assert ">0.4<" in table and ">∞ (3 of 6)<" in table and ">not reached<" in table


def test_curves_have_byte_axes_where_messages_differ(files):
    frame = pd.DataFrame(rounds())
    assert [axis for axis, _ in lower_axes(frame)] == ["round", "bytes", "up", "down", "seconds"]
    of_one = frame[frame["method"] == "cast"]
    assert [axis for axis, _ in lower_axes(of_one)] == ["round", "bytes", "seconds"]
    first, *_, entropy = map(json.loads, re.findall(r"data-numbers='(.*?)'", files["report.html"]))
    axes = first["axes"][0]
    assert axes["round"] == axes["seconds"] == [0, 1, 2, 3]
    assert axes["up"] == axes["down"] == [0, 4000, 8000, 12000]
    assert axes["bytes"] == [0, 8000, 16000, 24000]
    # Entropy-coded bytes of all codecs share a chart.
    curves = [(curve["name"], curve["y"]) for curve in entropy["curves"]]
    assert curves == [("cast", [7.0] * 3), ("top_k", [9.0] * 3)]
    assert "bytes of a message behind an entropy code" in files["report.html"].lower()


# ------------------------------------------------------------------------------- kept comparisons


def claims_in(path):
    """The table in the comments of a scenario, as rows by column."""
    lines = [line[4:].strip() for line in path.read_text().splitlines() if line.startswith("#   ")]
    head, *rows = [cells for line in lines if len(cells := re.split(r"\s{2,}", line)) > 1]
    return [dict(zip(head, row, strict=False)) for row in rows]


def test_comments_of_the_shipped_comparison_match_its_stored_run(root):
    claims = claims_in(root / "scenarios/compression/bytes.yaml")
    costs, compared = (
        pd.read_csv(REPORTS / "compression" / f"{name}.csv").set_index("method")
        for name in ("bytes", "compare")
    )
    assert len(claims) == len(costs) >= 10
    assert (costs["seeds"] >= 10).all()
    for claim in claims:
        row = costs.loc[claim["method"]]
        assert row["mean"] == pytest.approx(float(claim["score"]), abs=0.01), claim
        sent = row["up_per_client_round"]
        assert sent == pytest.approx(float(claim["bytes_up"]), rel=0.05), claim
        difference = float(claim.get("difference", "nan"))
        found = compared["difference"][claim["method"]]
        assert found == pytest.approx(difference, abs=0.01, nan_ok=True), claim


def test_comments_of_the_fleet_comparison_match_its_stored_run(root, tmp_path):
    """The stored run was made by the command in the comments, and its tables are consistent."""
    path, out = root / "scenarios/fleet/sync_or_async.yaml", REPORTS / "fleet"
    record = json.loads((out / "run.json").read_text())
    command = [
        word for word in record["surroundings"]["command"][1:] if word not in ("--quiet", "--force")
    ]
    assert command == ["compare", "scenarios/fleet/sync_or_async.yaml", "--out", "reports/fleet"]
    labels = [method["label"] for method in read(path).resolved()["compare"]["methods"]]
    assert labels == [method["label"] for method in record["scenario"]["compare"]["methods"]]
    copied = shutil.copytree(out, tmp_path / "fleet")
    assert of_comparison(copied, record) == []
    text = (copied / "seconds.csv").read_text()
    (copied / "seconds.csv").write_text(text.replace("fedbuff", "other"))
    assert of_comparison(copied, record) == ["seconds.csv does not follow from summary.csv"]
    claims = claims_in(path)
    costs = pd.read_csv(out / "seconds.csv").set_index("method")
    assert {claim["method"] for claim in claims} == set(costs.index) == set(labels)
    assert (costs["seeds"] >= 10).all()
    for claim in claims:
        row = costs.loc[claim["method"]]
        seconds = list(map(float, re.findall(r"\d+", claim["seconds"])))
        found = row[["virtual_seconds_to_target", "target_low", "target_high"]].tolist()
        assert found == pytest.approx(seconds, rel=0.05), claim["method"]
        assert row["in_time"] == pytest.approx(float(claim["in_time"]), abs=0.01)
        assert row["mean"] == pytest.approx(float(claim["score"]), abs=0.01)
