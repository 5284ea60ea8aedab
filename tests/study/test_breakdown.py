"""Where methods break down along the number of malicious clients: the table and its sentences."""

import pandas as pd
import pytest

import fedsim
from fedsim.errors import ScenarioError
from fedsim.study.attack_findings import breakdown_findings
from fedsim.study.breakdown import breakdown_rows
from fedsim.study.findings import findings_of
from fedsim.study.worst_case import worst_cases

MEANS = {  # by attack and method, along the axis
    "[sign_flip]": {"mean": [0.9, 0.2, 0.1], "median": [0.8, 0.7, 0.6]},
    "[zero]": {"mean": [0.9, 0.8, 0.7], "median": [0.8, 0.7, 0.3]},
}
AXIS = ["0", "0.2", "0.4"]


def rows(attacks=tuple(MEANS)):
    made = []
    for attack in attacks:
        for method, means in MEANS[attack].items():
            for value, mean in zip(AXIS, means, strict=True):
                variant = f"fleet.malicious={value}"
                if len(attacks) > 1:
                    variant += f", wire={attack}"
                row = {"method": method, "variant": variant, "fleet.malicious": value}
                row |= {"metric": "test_accuracy", "score": "final"}
                made.append({**row, "mean": mean, "sd": 0.01, "seeds": 5})
    return made


def starts(made):
    """Rounds of untrained models under these variations, two each, and a later one."""
    rounds = ((0, 0.05), (0, 0.15), (5, 0.9))
    scores = [{"round": number, "test_accuracy": score} for number, score in rounds]
    return [{**score, "variant": row["variant"]} for row in made for score in scores]


def found_in(made):
    rows_of_table = breakdown_rows(made, starts(made))
    tables = {"compare": [], "summary": [], "breakdown": rows_of_table}
    (found,) = breakdown_findings(findings_of(tables, "mean"))
    return found


def test_a_method_falls_where_half_of_its_gain_is_lost():
    table = pd.DataFrame(breakdown_rows(rows(["[sign_flip]"]), starts(rows(["[sign_flip]"]))))
    fallen = table[["method", "holds", "falls"]].fillna(-1).values.tolist()
    assert fallen == [["mean", 0, 0.2], ["median", 0.4, -1]]
    assert "variant" not in table
    assert table["untrained"].tolist() == pytest.approx([0.1, 0.1])


def test_of_losses_the_same_methods_fall():
    """And the untrained model is that of the first value."""
    made = rows(["[sign_flip]"])
    made = [{**row, "metric": "test_loss", "mean": 1 - row["mean"]} for row in made]
    start = {"round": 0, "test_loss": 0.9, "variant": "fleet.malicious=0"}
    fallen = {row["method"]: (row["holds"], row["falls"]) for row in breakdown_rows(made, [start])}
    assert fallen == {"mean": (0, 0.2), "median": (0.4, None)}


def test_of_several_attacks_the_worst_counts():
    found = found_in(rows())
    assert found.text == "Under the worst of 2 attacks, median holds longest: up to 20 % malicious"
    kept = "there it keeps at least half of what training gains, by the means"
    assert found.numbers == f"{kept}; mean up to 0 % malicious"
    found = found_in(rows(["[sign_flip]"]))
    assert found.text == "median holds longest: up to 40 % malicious"
    assert found.numbers == f"{kept}; mean up to 0 % malicious"


def test_without_a_significant_gain_from_training_no_method_holds_or_falls():
    """A gain that is significant if one method is tested, and not if all are."""
    made = rows(["[sign_flip]"])
    for row in made:
        row["sd"] = 0.6 if row["method"] == "mean" else row["sd"]
    table = pd.DataFrame(breakdown_rows(made, starts(made))).set_index("method")
    assert table.loc["mean", ["holds", "falls"]].isna().all()
    assert table.loc["median", "holds"] == 0.4
    assert [claim.who for claim in found_in(made).claims] == ["median"]


def test_without_start_models_or_numbers_nothing_falls():
    assert {row["falls"] for row in breakdown_rows(rows(), [])} == {None}
    counted = [{**row, "fleet.malicious": "{count: 3}"} for row in rows()]
    alone = [row for row in rows() if row["fleet.malicious"] == "0"]
    for made in (counted, alone):
        assert breakdown_rows(made, starts(made)) == []


def test_where_nobody_is_malicious_no_attack_is_the_worst():
    runs = [{**row, "seed": 0, "final": row["mean"], "diverged": 0} for row in rows()]
    variants = {row["variant"] for row in worst_cases(runs, "final")}
    assert variants == {"fleet.malicious=0.2", "fleet.malicious=0.4"}


DATA = {"kind": "gaussian_blobs", "samples": 300, "clients": 10}
SCENARIO = {"name": "aims", "rounds": 2, "data": DATA, "fleet": {"malicious": 0.3}}
SCENARIO["evaluate"] = {"metric": "attack_success"}
BACKDOOR = {"kind": "backdoor", "target": 0}


@pytest.mark.long
def test_a_comparison_by_the_success_of_an_attack(tmp_path):
    compared = fedsim.compare(
        {**SCENARIO, "data": {**DATA, "attack": [BACKDOOR]}},
        methods=["mean"],
        vary={"fleet.malicious": [0, 0.1, 0.3]},
        out=tmp_path / "out",
    )
    last = compared.rounds.query("round == 2")["attack_success"]
    assert compared.summary["final"].tolist() == last.tolist()
    table = pd.read_csv(tmp_path / "out" / "breakdown.csv")
    assert table.columns.tolist() == list(compared.breakdown.columns)
    assert table["metric"].unique() == ["attack_success"]

    # What an earlier comparison wrote and this one has no rows of is deleted.
    earlier = tmp_path / "earlier/seconds.csv"
    earlier.parent.mkdir()
    earlier.write_text("method\n")
    compared.save(earlier.parent)
    assert (earlier.parent / "breakdown.csv").exists() and not earlier.exists()


def test_attack_success_is_refused_where_it_is_not_measured():
    with pytest.raises(ScenarioError, match=r"attack_success measures data\.attack, and there is"):
        fedsim.run(SCENARIO)
    with pytest.raises(ScenarioError, match=r"no attack of data\.attack has a target, so there is"):
        fedsim.run({**SCENARIO, "data": {**DATA, "attack": ["label_random"]}})
    data = {**DATA, "attack": [BACKDOOR], "validation": 0.1}
    with pytest.raises(ScenarioError, match="chosen on validation data, where no attack is tried"):
        fedsim.compare({**SCENARIO, "data": data}, methods=["mean"], tune={"client.lr": [0.1, 0.2]})
