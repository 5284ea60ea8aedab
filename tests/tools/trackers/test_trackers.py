"""`--log-to`: trackers hold what is in the tables, and change nothing about the run."""

import importlib.util
import json
import os
import re
import sqlite3
import struct
import subprocess
import sys
from functools import partial
from pathlib import Path

import pandas as pd
import pytest
from conftest import if_whole

import fedsim
from fedsim.errors import Interrupted
from fedsim.runs import directory
from fedsim.runs.filenames import names_in
from fedsim.tools.trackers import BESIDE
from fedsim.tools.trackers import log as trackers

pytestmark = pytest.mark.long

TINY = {
    "name": "tiny",
    "rounds": 6,
    "evaluate": {"every": 2, "target": 0.5},
    "data": {"kind": "gaussian_blobs", "samples": 300, "clients": 5},
}
NAMES = ["tensorboard", "wandb", "mlflow"]
SAME = (
    *("rounds.csv", "clients.csv", "partition.csv", "summary.csv"),
    *("scenario.yaml", "model.fedavg.1.safetensors"),
)


def installed(name: str) -> bool:
    """Whether it can be written, and read here; nothing is imported, which takes seconds."""
    return all(map(importlib.util.find_spec, (name, *trackers.PACKAGES[name])))


HERE = [name for name in NAMES if installed(name)]
each_tracker = pytest.mark.parametrize("tracker", HERE)
with_tensorboard = pytest.mark.skipif("tensorboard" not in HERE, reason="no package")


@pytest.fixture(autouse=True)
def nobody(monkeypatch, tmp_path_factory):
    """No user is logged in, and nothing is written to a home folder."""
    home = tmp_path_factory.mktemp("home")
    for name in filter(re.compile("(WANDB|MLFLOW)_").match, list(os.environ)):
        monkeypatch.delenv(name)
    for name in ("HOME", "WANDB_CACHE_DIR", "WANDB_CONFIG_DIR"):
        monkeypatch.setenv(name, str(home))
    monkeypatch.setenv("NETRC", str(home / "netrc"))


@pytest.fixture(scope="module")
def out(tmp_path_factory):
    """A run of two seeds with all trackers."""
    out = tmp_path_factory.mktemp("tracked") / "out"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WANDB_MODE", "offline")
        fedsim.run(TINY, seeds=2, out=out, log_to=HERE)
    return out


def tensorboard(out: Path) -> dict:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    logged = {}
    for folder in sorted((out / "tensorboard").iterdir()):
        events = EventAccumulator(str(folder), {"scalars": 0}).Reload()
        pairs = lambda tag, events=events: [(e.step, e.value) for e in events.Scalars(tag)]
        scalars = {tag: pairs(tag) for tag in events.Tags()["scalars"]}
        logged[folder.name] = (scalars, hyper_parameters(events))
    return logged


def hyper_parameters(events) -> dict:
    from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData

    content = events.SummaryMetadata("_hparams_/session_start_info").plugin_data.content
    values = HParamsPluginData.FromString(content).session_start_info.hparams
    return {name: getattr(value, value.WhichOneof("kind")) for name, value in values.items()}


def mlflow(out: Path) -> dict:
    logged = {}
    with sqlite3.connect(out / "mlflow.db") as base:
        query = "SELECT run_uuid, name, status FROM runs WHERE lifecycle_stage = 'active'"
        for run, name, status in base.execute(query).fetchall():
            scalars: dict[str, list] = {}
            query = "SELECT key, step, value, is_nan FROM metrics WHERE run_uuid = ? ORDER BY step"
            for key, step, value, nan in base.execute(query, [run]):
                scalars.setdefault(key, []).append((step, float("nan") if nan else value))
            params = dict(base.execute("SELECT key, value FROM params WHERE run_uuid = ?", [run]))
            assert name not in logged and status == "FINISHED"
            logged[name] = (scalars, params)
    base.close()
    return logged


def wandb(out: Path) -> dict:
    from wandb.proto.wandb_internal_pb2 import Record

    logged = {}
    for file in sorted((out / "wandb").glob("offline-run-*/*.wandb")):
        scalars: dict[str, list] = {}
        name, config = "", {}
        for piece in pieces(file.read_bytes()):
            record = Record.FromString(piece)
            if record.HasField("run") and not name:
                name, config = record.run.display_name, plain(record.run.config.update)
                config |= {"client.lr": config["client"]["lr"], "data.kind": config["data"]["kind"]}
            values = plain(record.history.item)
            for key in values.keys() - {"_step", "_timestamp", "_runtime"}:
                scalars.setdefault(key, []).append((values["_step"], float(values[key])))
            for key, value in plain(record.summary.update).items():
                if key.startswith("summary/"):
                    scalars[key] = [(None, value)]
        assert name not in logged
        logged[name] = (scalars, config)
    return logged


def plain(items) -> dict:
    return {"/".join(each.nested_key) or each.key: json.loads(each.value_json) for each in items}


def pieces(data: bytes):
    """Records of a log in blocks of 32 KiB, each with a head of seven bytes, like the file."""
    at, whole = 7, b""
    while at + 7 <= len(data):
        if (room := 32768 - at % 32768) < 7:
            at += room
            continue
        length, kind = struct.unpack_from("<HB", data, at + 4)
        whole += data[at + 7 : at + 7 + length]
        at += 7 + length
        if kind in (1, 4):  # a whole one, or the last part of one
            yield whole
            whole = b""


READ = {"tensorboard": tensorboard, "wandb": wandb, "mlflow": mlflow}


def expected(out: Path, tracker: str) -> dict:
    """Series by run and column, from the tables."""
    rounds = pd.read_csv(out / "rounds.csv")
    logged = {}
    names = names_in(directory.sound_record(out))
    for key, rows in rounds.groupby(["method", "seed"], sort=False):
        method, seed = key
        columns = {}
        for name in rows.columns.difference(["method", "seed", "round"]):
            known = rows[rows[name].notna()]
            columns[name] = list(zip(known["round"], known[name].tolist(), strict=True))
        logged[f"{names[method] if tracker == 'tensorboard' else method}.{seed}"] = columns
    return logged


def demand_equal(tracker: str, out: Path) -> None:
    """Assert that a tracker holds the tables of a run directory."""
    logged, wanted = READ[tracker](out), expected(out, tracker)
    assert logged.keys() == wanted.keys()
    lines = pd.read_csv(out / "summary.csv").itertuples()
    for (run, (scalars, config)), line in zip(sorted(logged.items()), lines, strict=True):
        rows = {name: series for name, series in scalars.items() if not name.startswith("summary/")}
        assert rows.keys() == wanted[run].keys()
        for name, series in rows.items():
            (steps, values), (rounds, entries) = (zip(*s) for s in (series, wanted[run][name]))
            assert steps == rounds, name
            assert values == pytest.approx(entries, rel=1e-6, nan_ok=True), name
        for name in ("final", "best", "rounds_to_target", "client_accuracy_p50", "diverged"):
            assert scalars[f"summary/{name}"][-1][1] == pytest.approx(getattr(line, name), rel=1e-6)
        assert float(config["client.lr"]) == pytest.approx(0.1)
        assert config["data.kind"] == "gaussian_blobs"
        assert float(config["seed"]) == int(run.rpartition(".")[2])


@each_tracker
def test_a_tracker_holds_every_row_and_the_scenario_and_the_summary(tracker, out):
    demand_equal(tracker, out)


def test_trackers_change_no_other_file(out, tmp_path):
    fedsim.run(TINY, seeds=2, out=tmp_path / "plain")
    for name in SAME:
        assert (tmp_path / "plain" / name).read_bytes() == (out / name).read_bytes(), name
    names = lambda folder: {path.name for path in folder.iterdir()}
    assert names(out) - names(tmp_path / "plain") <= set(BESIDE)
    verification = fedsim.verify(out)
    assert verification.equal and "not part of this run: mlflow.db" in str(verification.checks)


@if_whole
@each_tracker
def test_a_resumed_run_is_logged_once(tracker, tmp_path):
    seen = []
    run = partial(fedsim.run, TINY, seeds=2, out=tmp_path / "x", log_to=tracker)
    with pytest.raises(Interrupted):
        run(watch=lambda experiment, seed, row: seen.append(row), ask=lambda: len(seen) > 3)
    for _ in range(2):  # the second time, there is nothing left to do
        run(resume=True)
        demand_equal(tracker, tmp_path / "x")


@each_tracker
def test_a_replaced_run_is_logged_again(tracker, tmp_path):
    for rounds in (2, 4):  # by one process, which may hold files of the first one
        fedsim.run({**TINY, "rounds": rounds}, out=tmp_path / "x", force=True, log_to=tracker)
        ((scalars, _),) = READ[tracker](tmp_path / "x").values()
        assert [step for step, _ in scalars["test_loss"]] == list(range(0, rounds + 1, 2))


@each_tracker
def test_runs_of_a_comparison_are_logged_separately_whatever_their_names(tracker, tmp_path):
    labels = ("=cmd()", "../x", "a/b")
    methods = [{"method": "fedavg", "label": label} for label in labels]
    fedsim.compare(TINY, methods, seeds=2, out=tmp_path / "x", log_to=tracker)
    assert [path.name for path in tmp_path.iterdir()] == ["x"]
    logged = READ[tracker](tmp_path / "x")
    names = names_in(directory.sound_record(tmp_path / "x")) if tracker == "tensorboard" else {}
    runs = {f"{names.get(label, label)}.{seed}" for label in labels for seed in (0, 1)}
    assert logged.keys() == runs
    assert all(len(scalars["test_loss"]) == 4 for scalars, _ in logged.values())
    assert not any(path.is_symlink() for path in tmp_path.rglob("*"))
    assert fedsim.verify(tmp_path / "x").equal


@if_whole
@with_tensorboard
def test_runs_of_other_processes_are_logged_from_their_journals(tmp_path):
    vary = {"client.lr": [0.1, 0.2]}
    options = {"vary": vary, "seeds": 2, "log_to": "tensorboard"}
    for jobs in (1, 2):
        fedsim.compare(TINY, "fedavg,median", jobs=jobs, out=tmp_path / str(jobs), **options)
    one, two = (tensorboard(tmp_path / str(jobs)) for jobs in (1, 2))
    assert str(one) == str(two) and len(one) == 8  # as text, in which NaN is equal to itself
    scalars, config = one["median-client-lr-0-2.1"]
    assert config["client.lr"] == pytest.approx(0.2) and "client.lr" not in scalars


@with_tensorboard
@pytest.mark.parametrize("when", ["begin", "log", "close"])
def test_a_tracker_that_fails_is_one_warning_and_the_run_continues(when, tmp_path, monkeypatch):
    class Broken:
        def __init__(self, start):
            assert when != "begin", "no  room\nleft"

        def log(self, step, values):
            assert when != "log" or step < 4, "no  room\nleft"

        def close(self, summary):
            assert when != "close", "no  room\nleft"

    monkeypatch.setitem(trackers.TRACKERS, "wandb", Broken)
    monkeypatch.setitem(trackers.PACKAGES, "wandb", ())
    with pytest.warns(UserWarning) as warned:
        fedsim.run(TINY, seeds=3, out=tmp_path / "x", log_to="wandb, tensorboard")
    (warning,) = warned
    said = str(warning.message)
    assert said.startswith("--log-to wandb: AssertionError: no room left") and "\n" not in said
    assert said.endswith("; nothing more is logged there")
    demand_equal("tensorboard", tmp_path / "x")


def test_a_tracker_without_a_run_directory_is_refused_before_anything_is_computed():
    for call in (fedsim.run, lambda *a, **k: fedsim.compare(*a, "fedavg", **k)):
        with pytest.raises(fedsim.ScenarioError) as error:
            call({"name": "wrong", "rouns": 1}, log_to=["tensorboard"])
        assert str(error.value) == "--log-to: tensorboard: needs a run directory; give out="


def test_what_a_plain_run_imports_is_no_tracker():
    code = "import sys, fedsim.runs.run, fedsim.tools.trackers.log\n"
    code += "assert not {'tensorboardX', 'wandb', 'mlflow', 'sqlalchemy'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
