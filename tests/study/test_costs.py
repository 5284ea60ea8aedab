"""What scores cost in bytes and virtual seconds: tables, sentences, pictures, page."""

import json
import math
import re
from itertools import product

import numpy as np
import pandas as pd
import pytest
from conftest import ROOT, if_whole
from scipy import stats

import fedsim
from fedsim.disk import tables
from fedsim.errors import ScenarioError
from fedsim.report.context import context_of
from fedsim.report.cost_table import cost_table
from fedsim.report.derived import derived_files
from fedsim.report.figures.costs import figures_of_costs
from fedsim.report.page.charts import charts, lower_axes
from fedsim.report.paper_table import paper_table
from fedsim.report.pictures.costs import cost_pictures
from fedsim.report.results import results
from fedsim.report.tables import for_paper
from fedsim.runs.checks import of_comparison
from fedsim.scenario import read
from fedsim.study.claims import IN_TIME, SAME_SCORE
from fedsim.study.cost_axes import BYTES, TIME, is_about_cost, timed
from fedsim.study.cost_findings import cost_findings, margin_of
from fedsim.study.costs import comparison_groups, cost_rows, differing_way, name_of, on_front
from fedsim.study.findings import findings_of
from fedsim.study.grid import design_of
from fedsim.study.methods import methods_of
from fedsim.study.statistics import holm, interval
from fedsim.study.words import call_of, codec_axes, variation_in_words

TOP_K = {"kind": "error_feedback", "codec": {"kind": "top_k", "k": 9}}
REPORTS = ROOT / "reports"
CONTEXT = context_of({}, [{"metric": "test_accuracy"}])
SCORES = {"dense": 0.9, "cast": 0.899, "top_k": 0.7, "bad": 0.6}
UP = {"dense": 400, "cast": 200, "top_k": 10, "bad": 300}


def summary(seeds: int = 6, **scores) -> list[dict]:
    """Runs of four methods; `top_k` reaches the target under half of the seeds, `bad` never."""
    rows = []
    for method, seed in product(SCORES, range(seeds)):
        arrives = method in ("dense", "cast") or (method == "top_k" and seed % 2)
        score = {**SCORES, **scores}[method] + 0.004 * (-1) ** (seed + len(method))
        target = 1000.0 * UP[method] + seed if arrives else None
        row = {
            "method": method,
            "seed": seed,
            "metric": "test_accuracy",
            "final": score,
            "best": score,
            "mean_last_k": score,
            "bytes_to_target": target,
            "diverged": 0,
        }
        rows.append(row)
    return rows


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


def row(rows: list[dict], method: str) -> dict:
    return next(row for row in rows if row["method"] == method)


# ---------------------------------------------------------------------------------------- the table


def test_rows_hold_scores_bytes_and_the_front():
    runs = summary()
    rows = cost_rows(BYTES, runs, rounds(), "final")
    cast = row(rows, "cast")
    values = np.array([run["final"] for run in runs if run["method"] == "cast"])
    assert (cast["mean"], cast["ci_low"], cast["ci_high"]) == pytest.approx(
        (values.mean(), *interval(values))
    )
    assert (cast["bytes_up"], cast["bytes_down"]) == (6000, 12000)
    assert (cast["up_per_client_round"], cast["down_per_client_round"]) == (200, 400)
    assert [r["front"] for r in rows] == [1, 1, 1, 0]
    assert differing_way(BYTES, rows) == "up"
    assert set(cast) == set(tables.BYTES)


def test_the_front_is_what_no_other_row_beats():
    rng = np.random.default_rng(0)
    rows = []
    for loss, sent in rng.integers(0, 6, (40, 2)).astype(float).tolist():
        spent = {"up_per_client_round": sent, "down_per_client_round": 1.0}
        rows.append({"metric": "test_loss", "mean": loss, **spent})
    pairs = [(r["mean"], r["up_per_client_round"]) for r in rows]
    for one, (loss, sent) in zip(rows, pairs, strict=True):
        beaten = any((a < loss and b <= sent) or (a <= loss and b < sent) for a, b in pairs)
        assert on_front(one, rows, "up") is not beaten


def test_seeds_that_never_reached_the_target_count_as_infinite():
    rows = cost_rows(BYTES, summary(), rounds(), "final")
    assert row(rows, "dense")["bytes_to_target"] == 400_002.5
    assert row(rows, "dense")["reached"] == 6
    columns = ("reached", "bytes_to_target", "target_low", "target_high")
    half = [row(rows, "top_k")[name] for name in columns]
    never = [row(rows, "bad")[name] for name in columns]
    assert half == [3, math.inf, 10_001, math.inf]
    assert never == [0, math.inf, math.inf, math.inf]
    text = tables.to_csv(rows, tables.BYTES)
    assert ",inf," in text
    assert "nan" not in text


def test_equal_message_sizes_leave_a_table_of_targets_alone():
    same = [{**r, "bytes_up": 10 * r["round"]} for r in rounds()]
    rows = cost_rows(BYTES, summary(), same, "final")
    assert len(rows) == 4
    assert "front" not in rows[0]
    assert rows[0]["reached"] == 6
    assert figures_of_costs(BYTES, rows, pd.DataFrame(same), context_of({})) == []
    assert found_from({"bytes": rows, "summary": summary(), "rounds": same}) == []
    assert (
        cost_rows(BYTES, [{**r, "bytes_to_target": None} for r in summary()], same, "final") == []
    )


def test_a_diverged_run_counts_as_the_worst():
    runs = summary()
    for run in runs:
        if run["method"] == "dense":
            run |= {"diverged": 1, "final": None}
    assert row(cost_rows(BYTES, runs, rounds(), "final"), "dense")["mean"] == 0.0
    failed = [{**r, "status": "failed" if r["method"] == "bad" else None} for r in summary()]
    methods = {r["method"] for r in cost_rows(BYTES, failed, rounds(), "final")}
    assert methods == {"dense", "cast", "top_k"}


# ----------------------------------------------------------------------------- over virtual seconds

CLOCK = {"dense": 8.0, "cast": 2.0, "top_k": 1.0, "bad": 2.0}  # seconds of a round
FLEET = {"fleet": {"deadline": 9.0}, "evaluate": {"target": 0.65}}


def clocked(seeds: int = 6) -> list[dict]:
    """`dense` takes longest; under seed 0 everything takes twice as long."""
    rows = rounds(seeds)
    for row in rows:
        row["virtual_seconds"] = row["round"] * CLOCK[row["method"]]
        if row["seed"] == 0:
            row["virtual_seconds"] *= 2
    return rows


def aimed(seeds: int = 6) -> list[dict]:
    ends = {"dense": 24.0, "cast": 6.0, "top_k": 3.0, "bad": 6.0}
    return [
        {**r, "virtual_seconds_to_target": ends[r["method"]] if r["bytes_to_target"] else None}
        for r in summary(seeds)
    ]


def test_rows_of_seconds_hold_scores_in_equal_time():
    """The first run of a seed ends after three seconds, before which `dense` only starts."""
    rows = cost_rows(TIME, aimed(), clocked(), "final")
    assert {name for r in rows for name in r} == set(tables.SECONDS)
    assert [r["virtual_seconds"] for r in rows] == pytest.approx([28.0, 7.0, 3.5, 7.0])
    assert [r["in_time"] for r in rows] == pytest.approx([0, 0.899 / 3, 0.7, 0.2])
    assert [r["front"] for r in rows] == [1, 1, 1, 0]
    assert differing_way(TIME, rows) == "seconds"
    half = row(rows, "top_k")
    assert half["reached"] == 3
    assert half["virtual_seconds_to_target"] == math.inf
    assert half["target_low"] == 3.0


def test_equal_durations_leave_no_table_of_seconds():
    assert cost_rows(TIME, aimed(), rounds(), "final") == []


def test_a_diverged_run_does_not_limit_the_time():
    runs = [{**r, "diverged": int(r["method"] == "top_k")} for r in aimed()]
    rows = cost_rows(TIME, runs, clocked(), "final")
    assert row(rows, "top_k")["in_time"] == 0.0
    assert row(rows, "cast")["in_time"] == pytest.approx(0.899)
    assert row(rows, "dense")["in_time"] == 0.0  # a round takes 8 seconds, and `cast` ends after 6


def test_sentences_are_about_seconds_where_machines_decide_them():
    runs = aimed()
    tables_of = {
        "seconds": cost_rows(TIME, runs, clocked(), "final"),
        "summary": runs,
        "rounds": clocked(),
    }
    (equal,) = found_from(tables_of, TIME, FLEET)
    # 3 * 2 / 2**6 is too large
    assert equal.text == "In equal time, none clearly beats dense" and not equal.claims
    assert equal.numbers.startswith("top_k: test accuracy 0.700 against 0.000, difference +0.7")
    assert found_from(tables_of, TIME, {"fleet": {}}) == []

    many = {"summary": aimed(8), "rounds": clocked(8)}
    many["seconds"] = cost_rows(TIME, many["summary"], many["rounds"], "final")
    (equal,) = found_from(many, TIME, FLEET)
    assert equal.text == "In equal time, top_k beats dense: test accuracy 0.700"
    claims = [(one.kind, one.who, one.p) for one in equal.claims]
    assert claims == [(IN_TIME, "top_k", 3 * 2 / 2**8)]


def test_machines_or_a_schedule_decide_how_long_rounds_take():
    assert timed({"compare": {"vary": {"schedule": ["sync", "fedbuff"]}}})
    assert not is_about_cost(TIME, FLEET)


def test_settings_of_a_round_are_compared_and_machines_are_not():
    rows = [
        {"method": "fedavg", "variant": f"fleet.deadline={t}, fleet.speed={kind}"}
        for t in (1, 2)
        for kind in "ab"
    ]
    assert list(comparison_groups(TIME, rows)) == ["fleet.speed=a", "fleet.speed=b"]
    assert len(comparison_groups(BYTES, rows)) == 4
    assert name_of(TIME, rows[0], rows[:1]) == "deadline 1 s"


def test_curves_over_seconds_are_means_at_the_same_rounds():
    rows = cost_rows(TIME, aimed(), clocked(), "final")
    (figure,) = figures_of_costs(
        TIME, rows, pd.DataFrame(clocked()), context_of({"name": "seconds", **FLEET})
    )
    above, below = figure.axes
    x, y = next(line for line in above.lines if line.get_label() == "cast").get_data()
    assert list(x) == pytest.approx([7 / 3, 14 / 3, 7.0])
    assert list(y) == pytest.approx([0.899 / 3, 2 * 0.899 / 3, 0.899])
    assert below.get_xlabel() == "virtual seconds to test accuracy 0.65"
    marks = [line.get_xdata()[0] for line in below.lines if line.get_label() == "mark"]
    assert sorted(marks) == [6.0, 24.0]  # half of the seeds of `top_k` never get there


def test_lost_messages_add_to_the_bytes_of_those_that_arrive():
    lost = [{**r, "clients_late": 0, "clients_reported": 5 if r["round"] else 0} for r in rounds()]
    assert row(cost_rows(BYTES, summary(), lost, "final"), "dense")["up_per_client_round"] == 800


# ------------------------------------------------------------------------------------- in sentences


def found_in(runs, axis=BYTES, scenario=None):
    tables_of = {axis.table: cost_rows(axis, runs, rounds(), "final")}
    return found_from({**tables_of, "summary": runs, "rounds": rounds()}, axis, scenario)


def found_from(tables_of, axis=BYTES, scenario=None):
    findings = findings_of({"compare": [], **tables_of}, "dense", "final", scenario)
    return cost_findings(axis, findings)


def claims_of(found):
    return [claim for finding in found for claim in finding.claims]


def close(runs: list[dict]) -> list[dict]:
    """Runs with a tenth of their noise."""
    return [{**row, "final": 0.9 * SCORES[row["method"]] + 0.1 * row["final"]} for row in runs]


def test_the_first_sentence_says_what_can_be_saved():
    (first,) = found_in(close(summary()))
    assert first.text == "cast sends 2 times fewer bytes up than dense, at the same test accuracy"
    assert re.fullmatch(
        r"test accuracy 0\.\d+ against 0\.\d+, difference [-+]\S+, 95 % CI -\S+ to [-+]\S+; "
        r"less than 0\.01 worse, p = \S+ after Holm",
        first.numbers,
    )


def test_the_same_score_is_claimed_where_the_interval_ends_above_the_margin():
    """By SciPy, for every cheaper row, after Holm over them."""
    runs = close(summary())
    scores = {m: np.array([r["final"] for r in runs if r["method"] == m]) for m in SCORES}
    test = stats.ttest_1samp(scores["cast"] - scores["dense"], -0.01, alternative="greater")
    (claim,) = claims_of(found_in(runs))
    assert (claim.kind, claim.who, claim.whom) == (SAME_SCORE, "cast", "dense")
    assert claim.p == pytest.approx(
        holm([2 * test.pvalue, 1.0, 1.0])[0]
    )  # the others are far below
    ends = stats.ttest_rel(scores["cast"], scores["dense"]).confidence_interval(0.95)
    for margin, wanted in (
        (0.01, True),
        (2 * -ends.low, True),
        (0.99 * -ends.low, False),
        (0.0, False),
    ):
        made = claims_of(found_in(runs, scenario={"compare": {"margin": margin}}))
        assert any(one.kind == SAME_SCORE for one in made) is wanted, margin


def test_without_significance_a_score_may_be_as_much_worse_as_its_interval_allows():
    """Numbers that were once reported as the same: 0.664 and 0.731, 95 % CI -0.135 to +0.002."""
    runs = summary()
    for row in runs:
        row["final"] = {"dense": 0.731, "cast": 0.664}.get(row["method"], 0.3)
        row["final"] += 0.0595 * (-1) ** row["seed"] * (row["method"] == "cast")
    (first, *_) = found_in(runs)
    assert first.text == "No saving in bytes up is shown at the test accuracy of dense"
    assert re.fullmatch(
        r"cast, 2 times fewer: test accuracy 0\.664 against 0\.731, "
        r"difference -0\.067, 95 % CI -0\.13\d+ to \+0\.00\d+",
        first.numbers,
    )
    assert not first.claims


@pytest.mark.parametrize("margin", [-0.001, math.inf, "a lot", 1e300])
def test_a_margin_is_a_number_of_at_least_0(margin):
    with pytest.raises(ScenarioError, match=r"compare\.margin: "):
        read({"name": "margins", "data": "digits", "compare": {"margin": margin}})
    assert (
        read({"name": "margins", "data": "digits", "compare": {"margin": 0}}).resolved()["compare"][
            "margin"
        ]
        == 0
    )


def test_a_comparison_keeps_what_its_section_says():
    """The margin, too, which the sentences read from the record; methods hold their ranges."""
    section = {
        "methods": ["fedavg", "fedprox"],
        "vary": {"data.clients": [5, 10]},
        "ranges": True,
        "budget": 3,
        "suite": 2,
        "margin": 0.05,
    }
    data = {"kind": "digits", "validation": 0.1}
    scenario = read({"name": "kept", "data": data, "compare": section})
    compare = design_of(scenario).scenario.resolved()["compare"]
    for key in ("vary", "budget", "suite", "margin"):
        assert compare[key] == section[key], key
    assert compare["methods"][0]["tune"] == {"client.lr": "log(1e-2, 1)"}
    assert "ranges" not in compare
    assert margin_of({"compare": compare}, "test_accuracy", 0.9) == 0.05


def test_equal_scores_under_few_seeds_are_no_claim():
    """As with codecs that lose nothing: six seeds are too few for three cheaper methods."""
    runs = close(summary())
    dense = {row["seed"]: row["final"] for row in runs if row["method"] == "dense"}
    runs = [
        {**row, "final": dense[row["seed"]] if row["method"] == "cast" else row["final"]}
        for row in runs
    ]
    first = found_in(runs)[0]
    assert "No saving" in first.text and not first.claims
    assert first.numbers == "cast, 2 times fewer: test accuracy 0.900 against 0.900, difference +0"


def test_the_margin_of_a_loss_is_a_hundredth_of_the_baseline_s():
    runs = [
        {**row, "metric": "test_loss", "final": 10 * (1.9 - row["final"])}
        for row in close(summary())
    ]
    first = found_in(runs)[0]
    assert first.numbers.startswith("test loss 10 against 10, difference ")
    assert "less than 0.1 worse" in first.numbers
    narrow = found_in(runs, scenario={"compare": {"margin": 0.001}})
    assert SAME_SCORE not in {claim.kind for claim in claims_of(narrow)}


def test_holm_runs_over_the_tables_of_bytes_and_of_seconds():
    """Equal scores are one test in both tables; more rows in a table are more tests."""
    runs = close(aimed())
    tables_of = {axis.table: cost_rows(axis, runs, clocked(), "final") for axis in (BYTES, TIME)}
    scenario = {**FLEET, "compare": {"vary": {"wire": [[], ["cast"]]}}}
    few = [row for row in tables_of["bytes"] if row["method"] in ("dense", "cast")]
    about = {"summary": runs, "rounds": clocked(), "bytes": few}
    alone, both = (found_from({**known, **about}, scenario=scenario) for known in ({}, tables_of))
    sure = [
        next(one for one in claims_of(lines) if one.kind == SAME_SCORE) for lines in (alone, both)
    ]
    assert sure[1].p == pytest.approx(3 * sure[0].p)


def test_mb_to_target_is_one_number_on_a_page():
    """The median over all runs, in the tables of costs, of results and of papers alike."""
    runs = [{**row, "rounds_to_target": 2 if row["bytes_to_target"] else None} for row in summary()]
    (picture,) = cost_pictures(BYTES, cost_rows(BYTES, runs, rounds(), "final"), "dense", CONTEXT)
    head, cells = cost_table(picture)
    column = head.index("MB to target")
    names = [point.name for point in picture.points]
    of_costs = {name: row[column][0].split(" (")[0] for name, row in zip(names, cells, strict=True)}
    assert of_costs == {"dense": "0.4", "cast": "0.2", "top_k": "∞", "bad": "∞"}
    wanted = {**of_costs, "top_k": "∞ (3 of 6)", "bad": "not reached"}
    assert {
        row["method"][0]: row["MB to target"][0] for row in results(runs, None, "final")
    } == wanted
    frame = pd.DataFrame(runs)
    assert (
        for_paper(frame).set_index("method")["MB to target"].replace("", "not reached").to_dict()
        == wanted
    )
    assert re.search(
        r"^dense .*& 2 & 0\.4 ", paper_table(runs, None, "final", {"name": "paper"}), re.M
    )


def test_rows_of_one_method_are_named_by_their_codecs():
    wires = ["[]", "[cast]", "[{kind: error_feedback, codec: {kind: top_k, k: 9}}]"]
    rows = [
        {"method": "fedavg", "variant": f"wire={wire}, client.lr={lr}"}
        for wire, lr in product(wires, (1, 2))
    ]
    assert list(comparison_groups(BYTES, rows)) == ["client.lr=1", "client.lr=2"]
    assert codec_axes(r["variant"] for r in rows) == {"wire"}
    names = [name_of(BYTES, r, rows) for r in comparison_groups(BYTES, rows)["client.lr=1"]]
    assert names == ["nothing", "cast", "error_feedback(top_k(k=9))"]
    more = [*rows, {**rows[0], "method": "scaffold"}]
    assert name_of(BYTES, rows[2], more) == "fedavg, cast"
    assert (
        codec_axes(["wire=[sign_flip]", "wire=[]"])
        == codec_axes(["wire=[cast, sign_flip]"])
        == set()
    )


def test_codecs_are_written_as_calls_wherever_they_are_named():
    assert call_of([TOP_K, "cast"]) == "error_feedback(top_k(k=9)) → cast"
    assert call_of([]) == "as sent"
    assert (
        variation_in_words("wire=[{kind: error_feedback, codec: {kind: top_k, k: 9}}]")
        == "error_feedback(top_k(k=9))"
    )
    assert (
        variation_in_words("broadcast=[{kind: ef21, codec: {kind: top_k, k: 9}}]")
        == "ef21(top_k(k=9)) in the broadcast"
    )
    assert variation_in_words("wire=[{kind: sign_flip, scale: 5}]") == "sign flip scale 5"
    (method,) = methods_of([{"method": "fedavg", "set": {"wire": [TOP_K]}}])
    assert method.label == "fedavg[wire=error_feedback(top_k(k=9))]"
    assert is_about_cost(BYTES, {"compare": {"methods": [method.entry]}})
    assert not is_about_cost(BYTES, {"compare": {"methods": ["fedavg"]}})
    assert is_about_cost(BYTES, {"compare": {"vary": {"wire": ["[]", "[cast]"]}}})
    assert not is_about_cost(BYTES, None)


# ---------------------------------------------------------------------------- pictures and the page


def test_the_figure_has_curves_and_a_front():
    rows = cost_rows(BYTES, summary(), rounds(), "final")
    (figure,) = figures_of_costs(BYTES, rows, pd.DataFrame(rounds()), context_of({"name": "bytes"}))
    above, below = figure.axes
    curves = {line.get_label(): line for line in above.lines}
    assert set(curves) == set(SCORES)
    assert above.get_xscale() == below.get_xscale() == "log"
    x, y = curves["cast"].get_data()
    assert list(x) == [2000, 4000, 6000]
    assert list(y) == pytest.approx([0.899 / 3, 0.899 * 2 / 3, 0.899])
    front = next(line for line in below.lines if line.get_label() == "front")
    assert list(front.get_xdata()) == [10, 200, 400]
    hollow = {line.get_label() for line in below.lines if line.get_markerfacecolor() == "white"}
    assert hollow & set(SCORES) == {"bad"}
    legend = [text.get_text() for text in figure.legends[0].get_texts()]
    assert sorted(legend) == ["1 dense", "2 cast", "3 top_k", "4 bad"]


def test_points_that_coincide_share_their_numbers():
    runs, sent = summary(), rounds()
    twins = [{**r, "method": "twin"} for r in runs if r["method"] == "cast"]
    again = [{**r, "method": "twin"} for r in sent if r["method"] == "cast"]
    rows = cost_rows(BYTES, runs + twins, sent + again, "final")
    (figure,) = figures_of_costs(BYTES, rows, None, context_of({"name": "bytes"}))
    assert "2, 5" in {text.get_text() for text in figure.axes[0].texts}


def numbers_of(group):
    """The numbers beside the pointer of a group's first chart."""
    figure = group["panels"].shown[0]["figure"]
    return json.loads(re.search(r"data-numbers='(.*?)'", figure)[1])


def test_curves_have_byte_axes_where_messages_differ():
    frame = pd.DataFrame(rounds())
    assert [axis for axis, _ in lower_axes(frame)] == [
        "round", "bytes", "up", "down", "seconds",
    ]  # fmt: skip
    assert [axis for axis, _ in lower_axes(frame[frame["method"] == "cast"])] == [
        "round", "bytes", "seconds",
    ]  # fmt: skip
    assert numbers_of(charts(frame, [*SCORES], CONTEXT)[0])["axes"][0] == {
        "round": [0, 1, 2, 3],
        "bytes": [0, 8000, 16000, 24000],
        "up": [0, 4000, 8000, 12000],
        "down": [0, 4000, 8000, 12000],
        "seconds": [0, 1, 2, 3],
    }


def test_entropy_coded_bytes_of_all_codecs_share_a_chart():
    frame = pd.DataFrame(rounds())
    frame["a/entropy_bytes"] = np.where(
        (frame["method"] == "cast") & (frame["round"] > 0), 7.0, np.nan
    )
    frame["b/entropy_bytes"] = np.where(
        (frame["method"] == "top_k") & (frame["round"] > 0), 9.0, np.nan
    )
    groups = {group["words"]: group for group in charts(frame, [*SCORES], CONTEXT)}
    curves = numbers_of(groups["bytes of a message behind an entropy code"])["curves"]
    assert [(c["name"], c["y"]) for c in curves] == [("cast", [7.0] * 3), ("top_k", [9.0] * 3)]


def test_the_table_of_a_paper_names_the_front_and_the_saving():
    (picture,) = cost_pictures(
        BYTES, cost_rows(BYTES, summary(), rounds(), "final"), "dense", CONTEXT
    )
    assert [point.name for point in picture.points] == ["dense", "cast", "top_k", "bad"]
    head, rows = cost_table(picture)
    cells = [dict(zip(head, (shown for shown, _ in row), strict=True)) for row in rows]
    assert [c["× fewer"] for c in cells] == ["baseline", "2", "40", "1.33"]
    assert [c["front"] for c in cells] == ["yes"] * 3 + [""]
    assert cells[2]["reached"] == "3 of 6"
    assert cells[2]["MB to target"] == "∞ (0.01 to ∞)"
    assert cells[1]["up"] == "200 bytes"


# ----------------------------------------------------------------------------------- as users do it


@if_whole
@pytest.mark.long
def test_a_comparison_of_codecs_as_a_user_makes_it(tmp_path):
    scenario = {
        "name": "codecs",
        "rounds": 6,
        "seeds": 2,
        "data": {"kind": "digits", "clients": 10},
        "client": {"lr": 0.1, "batch": 10, "epochs": 1},
        "evaluate": {"every": 2, "target": 0.5},
    }
    methods = [
        {"method": "fedavg", "label": "as sent"},
        {"method": "fedavg", "set": {"wire": [TOP_K]}},
    ]
    compared = fedsim.compare(scenario, methods=methods, baseline="as sent", out=tmp_path / "out")
    table = tables.read_table(tmp_path / "out", "bytes")
    assert table is not None
    assert (
        table["method"].tolist()
        == compared.bytes["method"].tolist()
        == [m.label for m in methods_of(methods)]
    )
    d = 64 * 10 + 10
    assert table["up_per_client_round"].tolist() == [4 * d, 9 * (32 + 10) // 8 + 1]
    last = compared.rounds.query("round == 6")
    assert table["bytes_up"].tolist() == [
        last[last["method"] == m]["bytes_up"].mean() for m in table["method"]
    ]
    headline = compared.verdict[0]
    assert headline == "No saving in bytes up is shown at the test accuracy of as sent."
    record = json.loads((tmp_path / "out" / "run.json").read_text())
    files = derived_files(compared.frames(), record)
    assert files["figures/bytes.png"].startswith(b"\x89PNG")
    assert b"booktabs" in files["tables/bytes.tex"]
    page = files["report.html"].decode()
    assert "What it costs in bytes" in page
    assert 'data-axis="up"' in page
    assert "error_feedback(top_k(k=9))" in page.replace("<wbr>", "")
    assert of_comparison(tmp_path / "out", record) == []
    text = (tmp_path / "out" / "bytes.csv").read_text()
    (tmp_path / "out" / "bytes.csv").write_text(text.replace("as sent", "other"))
    assert of_comparison(tmp_path / "out", record) == ["bytes.csv does not follow from summary.csv"]


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


def test_comments_of_the_fleet_comparison_match_its_stored_run(root):
    """The stored run was made by the command in the comments, and its tables are consistent."""
    path, out = root / "scenarios/fleet/sync_or_async.yaml", REPORTS / "fleet"
    record = json.loads((out / "run.json").read_text())
    command = [
        word for word in record["surroundings"]["command"][1:] if word not in ("--quiet", "--force")
    ]
    assert command == ["compare", "scenarios/fleet/sync_or_async.yaml", "--out", "reports/fleet"]
    labels = [method["label"] for method in read(path).resolved()["compare"]["methods"]]
    assert labels == [method["label"] for method in record["scenario"]["compare"]["methods"]]
    assert of_comparison(out, record) == []
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
