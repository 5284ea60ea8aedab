"""The command as a user starts it: its files, its exit codes, its one line per problem."""

import json

import numpy as np
import pandas as pd
import pytest
from test_commands import fedsim as typed

import fedsim
from fedsim.data import prepare
from fedsim.sources import digits

FILES = {
    *("checkpoints", "figures", "report.html", "run.json", "scenario.yaml", "tables"),
    *("rounds.csv", "clients.csv", "partition.csv", "summary.csv", "timing.csv"),
    *("model.fedavg.0.safetensors", "model.fedavg.1.safetensors"),
}
DRAWN = {"figures", "report.html", "tables"}  # see .ci/package
DIFFERENT = {"checkpoints", "run.json", "timing.csv"}  # in two runs
COLUMNS = [
    *("method", "seed", "round", "virtual_seconds", "bytes_up", "bytes_down", "clients_sampled"),
    *("clients_reported", "n_nonfinite", "skipped", "train_loss", "test_loss", "test_accuracy"),
]


@pytest.fixture(scope="module")
def out(root, tmp_path_factory):
    """A shortened iid.yaml with two seeds."""
    out = tmp_path_factory.mktemp("run") / "iid"
    words = f"run scenarios/iid.yaml --set rounds=3 --seeds 2 --out {out}"
    done = typed(words, root)
    assert done.returncode == 0, done.stderr
    assert "test_accuracy" in done.stdout and "rounds.csv" in done.stdout
    assert "\x1b" not in done.stdout
    return out


def test_a_run_writes_its_files(out):
    assert {path.name for path in out.iterdir()} == FILES - DRAWN


def test_rounds_csv_has_its_columns_and_consistent_values(out):
    rounds = pd.read_csv(out / "rounds.csv")
    assert rounds.columns.tolist() == COLUMNS
    assert rounds["round"].tolist() == [0, 1, 2, 3] * 2
    assert rounds["seed"].tolist() == [0] * 4 + [1] * 4
    first = rounds.iloc[0]
    assert first[COLUMNS[3:7]].sum() == 0 and np.isnan(first["train_loss"])
    parameters = 64 * 64 + 64 + 64 * 10 + 10
    assert (rounds["bytes_up"] == rounds["round"] * 10 * 4 * parameters).all()
    assert (rounds["bytes_down"] == rounds["bytes_up"]).all()
    assert (rounds["clients_reported"] == [0, 10, 10, 10] * 2).all()
    assert rounds["n_nonfinite"].sum() == 0
    assert (rounds["virtual_seconds"] == rounds["round"] * 10).all()  # 5 epochs of 2 batches
    assert rounds["test_loss"].iloc[3] < rounds["test_loss"].iloc[0]


def test_summary_follows_from_rounds(out):
    rounds, summary = pd.read_csv(out / "rounds.csv"), pd.read_csv(out / "summary.csv")
    assert summary["metric"].tolist() == ["test_accuracy"] * 2
    assert summary["diverged"].tolist() == [0, 0]
    for _, line in summary.iterrows():
        mine = rounds[rounds["seed"] == line["seed"]]["test_accuracy"]
        assert line["final"] == mine.iloc[-1] and line["best"] == mine.max() and line["k"] == 4
        assert line["mean_last_k"] == pytest.approx(mine.mean(), rel=1e-15)


def test_clients_csv_agrees_with_the_partition(out):
    clients, partition = pd.read_csv(out / "clients.csv"), pd.read_csv(out / "partition.csv")
    assert len(clients) == 200 and clients.groupby("seed")["samples"].sum().tolist() == [1438, 1438]
    held = partition.groupby(["seed", "client"])["samples"]
    assert (held.sum().to_numpy() == clients["samples"].to_numpy()).all()
    assert (held.size().to_numpy() == clients["classes"].to_numpy()).all()
    assert clients.groupby("seed")["rounds_joined"].sum().tolist() == [30, 30]
    assert clients["global_accuracy"].between(0, 1).all() and (clients["global_loss"] > 0).all()


def test_the_record_has_hashes_and_the_resolved_scenario(out):
    record = json.loads((out / "run.json").read_text())
    assert record["status"] == "done" and record["lanes"] == 5 and record["environment"]["jax"]
    assert set(record["hashes"]) == {"scenario", "data", "partition", "start"}
    again = fedsim.scenario.read(out / "scenario.yaml")
    assert again.hash() == record["hashes"]["scenario"]
    assert again.resolved()["numerics"]["lanes"] == 5


def test_the_model_loads_with_one_call_and_has_the_reported_accuracy(out):
    params = fedsim.load_model(out / "model.fedavg.0.safetensors")["params"]
    sets, _ = prepare(digits(), test=0.2, seed=0, dtype=np.dtype("float32"))
    x, y = sets.test.x, sets.test.y
    h = np.maximum(x.reshape(len(x), -1) @ params["layer0"]["W"] + params["layer0"]["b"], 0)
    hits = (h @ params["layer1"]["W"] + params["layer1"]["b"]).argmax(1) == y
    assert hits.mean() == pd.read_csv(out / "rounds.csv")["test_accuracy"].iloc[3]


@pytest.mark.long
def test_the_resolved_scenario_repeats_the_run(out, tmp_path):
    line = f"run {out}/scenario.yaml --out {tmp_path}/again --quiet --no-pictures"
    done = typed(line, tmp_path, PYTHONHASHSEED="1")  # in a process of its own
    assert done.returncode == 0 and done.stdout == "" and done.stderr == ""
    for name in FILES - DRAWN - DIFFERENT:
        assert (tmp_path / "again" / name).read_bytes() == (out / name).read_bytes(), name


@pytest.mark.long
def test_a_diverged_run_writes_its_files_exits_5_and_is_replaced_by_force(root, tmp_path):
    line = f"run scenarios/iid.yaml --set rounds=6 --no-pictures --out {tmp_path}/x"
    edits = "--set client.lr=1e30 --set on_nonfinite=keep"
    done = typed(f"{line} {edits} --seeds 2", root)
    assert done.returncode == 5
    assert "seed 0 diverged: round" in done.stderr and "seed 1 diverged" in done.stderr
    assert pd.read_csv(tmp_path / "x/summary.csv")["diverged"].tolist() == [1, 1]

    done = typed(f"{line} --force --seeds 3, --json", root)
    assert done.returncode == 0 and json.loads(done.stdout)["summary"][0]["seed"] == 3
    assert not (tmp_path / "x" / "model.fedavg.0.safetensors").exists()


def test_samples_of_a_python_program_are_not_there_for_the_command(tmp_path):
    (tmp_path / "s.yaml").write_text("name: s\ndata: {kind: supplied}\n")
    done = typed("run s.yaml --out out", tmp_path)
    assert done.returncode == 3 and "came from a Python program" in done.stderr
