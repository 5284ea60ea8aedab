"""The comments of shipped comparisons of costs match the stored runs."""

import json
import re
import shutil

import pandas as pd
import pytest

from fedsim.runs.checks import of_comparison
from fedsim.scenario import read


def claims_in(path):
    """The table in the comments of a scenario, as rows by column."""
    lines = [line[4:].strip() for line in path.read_text().splitlines() if line.startswith("#   ")]
    head, *rows = [cells for line in lines if len(cells := re.split(r"\s{2,}", line)) > 1]
    return [dict(zip(head, row, strict=False)) for row in rows]


def test_comments_of_the_shipped_comparison_match_its_stored_run(root):
    claims = claims_in(root / "scenarios/compression/bytes.yaml")
    costs, compared = (
        pd.read_csv(root / "reports" / "compression" / f"{name}.csv").set_index("method")
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
    path, out = root / "scenarios/fleet/sync_or_async.yaml", root / "reports" / "fleet"
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
