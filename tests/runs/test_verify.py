"""`fedsim verify` confirms only what is true."""

import hashlib
import json
import re
import shutil
from functools import partial

import numpy as np
import pytest
from directories import contents, rehashed
from test_commands import fedsim as typed

import fedsim
from fedsim.disk import tables as frames
from fedsim.disk.checkpoint import Snapshot, decode, encode
from fedsim.errors import DirectoryError
from fedsim.runs import directory
from fedsim.runs import verify as verification
from fedsim.runs.result import TABLE_COLUMNS

SCENARIO = {
    "name": "tiny",
    "rounds": 5,
    "seeds": 2,
    "data": {"kind": "gaussian_blobs", "clients": 6, "samples": 120, "classes": 3, "shape": [4]},
    "cohort": {"kind": "uniform", "size": 3},
    "evaluate": {"every": 2},  # so that the last round is off the grid
    "checkpoint": {"rounds": 2},
}
SCAFFOLD = {**SCENARIO, "method": "scaffold"}
POISONED = {**SCENARIO, "wire": ["nonfinite"], "fleet": {"malicious": [2]}}
ADAM = ["mean", {"kind": "adam", "lr": 0.05}]
# One seed alone has another share of the lanes' steps, where clients drop out.
SHARED = {
    "rounds": 3,
    "client": {"epochs": 2, "batch": 8},
    "fleet": {"dropout": 0.3, "speed": {"kind": "lognormal", "sigma": 0.5}},
    "checkpoint": {"keep": [1, 2]},
}
ENDS = ["round 1", "round 5"]
KINDS = {  # a scenario, and what of each seed is replayed; None: it depends on who is drawn
    "fedavg": (SCENARIO, ENDS),
    "one commit": ({**SCENARIO, "checkpoint": {"seconds": 1e6}}, ["rounds 1 to 5"]),
    "no rounds": ({**SCENARIO, "rounds": 0}, ["round 0"]),
    "one round": ({**SCENARIO, "rounds": 1}, ["round 1"]),
    "scaffold": (SCAFFOLD, ENDS),
    "scaffold on disk": ({**SCAFFOLD, "checkpoint": {"rounds": 2, "resident_mb": 0}}, ENDS),
    "float64": ({**SCENARIO, "numerics": {"dtype": "float64"}, "server": ADAM}, ENDS),
    "diverged": ({**POISONED, "on_nonfinite": "keep"}, None),
    "stopped": ({**POISONED, "on_nonfinite": "stop"}, None),
    "trained side by side": ({**SCENARIO, **SHARED}, None),
}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Run directories by kind, each made once; not to be written to."""
    home = tmp_path_factory.mktemp("runs")

    def of(kind):
        out = home / kind.replace(" ", "-")
        if not out.exists():
            fedsim.run(KINDS[kind][0], out=out)
        return out

    return of


@pytest.fixture
def mine(made, tmp_path):
    """A copy of a run directory, to be spoiled."""
    return lambda kind: shutil.copytree(made(kind), tmp_path / "mine")


def failed(result):
    return {check.name: check.detail for check in result.checks if not check.ok}


def state(path):
    """Everything in a directory that could have changed."""
    there = sorted([path, *path.rglob("*")])
    return [
        (p, p.stat().st_mtime_ns, p.stat().st_ino, p.read_bytes() if p.is_file() else None)
        for p in there
    ]


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
def test_a_finished_run_is_confirmed_and_left_unchanged(kind, made):
    out = made(kind)
    before = state(out)
    result = fedsim.verify(out)
    assert result.equal, failed(result)
    assert fedsim.verify(out, whole=True).equal
    assert state(out) == before
    replays = [check.name for check in result.checks if check.name.startswith("seed")]
    if (replayed := KINDS[kind][1]) is not None:
        assert replays == [f"seed {seed}, {rounds}" for seed in (0, 1) for rounds in replayed]


@pytest.mark.long
def test_a_run_to_which_rounds_were_added_is_confirmed(mine):
    out = mine("scaffold on disk")
    longer = {**SCAFFOLD, "rounds": 7, "checkpoint": {"resident_mb": 256, "seconds": 1e6}}
    fedsim.run(longer, out=out, resume=True)
    result = fedsim.verify(out)
    assert result.equal, failed(result)
    replays = [check.name for check in result.checks if check.name.startswith("seed 0")]
    assert replays == ["seed 0, round 1", "seed 0, rounds 6 to 7"]


def test_a_flipped_byte_in_any_file_is_found(mine):
    out = mine("fedavg")
    names = [name for name in sorted(contents(out)) if ".1" not in name]  # of one seed
    assert len(names) == 11  # tables, scenario, record, model, log and two commits
    rng = np.random.default_rng(0)
    for file in (out / name for name in names):
        whole = file.read_bytes()
        spoiled = bytearray(whole)
        spoiled[int(rng.integers(len(whole)))] ^= int(rng.integers(1, 256))
        file.write_bytes(spoiled)
        result = fedsim.verify(out)
        assert not result.equal and file.name in result.checks[-1].detail, file
        file.write_bytes(whole)
    record = out / "run.json"
    record.write_bytes(record.read_bytes().replace(b"\n", b"\r", 1))
    assert list(failed(fedsim.verify(out))) == ["record"]


@pytest.mark.long
def test_missing_files_are_reported_and_foreign_ones_are_named(mine):
    out = mine("fedavg")
    (out / "notes.txt").write_text("mine")
    result = fedsim.verify(out)
    assert result.equal
    assert any("not part of this run: notes.txt" in check.detail for check in result.checks)
    (out / "timing.csv").unlink()
    assert failed(fedsim.verify(out)) == {"files": "timing.csv is missing"}
    rehashed(out)
    assert failed(fedsim.verify(out)) == {"files": "timing.csv is not in the record"}
    record = directory.read_record(out)
    commit = next(name for name in record["files"] if name.endswith(".ckpt"))
    named = {file: sha for file, sha in record["files"].items() if file != commit}
    directory.write_record(out, {**record, "files": named})
    assert f"{commit} is not in the record" in failed(fedsim.verify(out))["files"]
    (out / "run.json").unlink()
    with pytest.raises(DirectoryError, match="holds no fedsim run"):
        fedsim.verify(out)


def test_a_record_that_no_run_wrote_is_refused(mine):
    """Even though its own hash matches."""
    out = mine("fedavg")
    record = directory.read_record(out)
    for name, odd in (("scenario", {}), ("hashes", None), ("files", 3)):
        directory.write_record(out, {**record, name: odd})
        assert list(failed(fedsim.verify(out))) == ["record"]


def doctored(out, logged=lambda table, row: None, committed=lambda number, snapshot: None):
    """Change what the logs and the commits say, and make all else fit: hashes, tables, record.

    `logged` changes a row, but not the length of its text; of `committed(number, snapshot)`, number
    0 is the older commit.
    """
    tables = {}
    for folder in sorted((out / "checkpoints").iterdir()):
        lines = [json.loads(line) for line in (folder / "log.jsonl").read_bytes().splitlines()]
        for table, row in lines:
            logged(table, row)
            tables.setdefault(table, []).append(row)
        text = b"".join(json.dumps(line).encode() + b"\n" for line in lines)
        assert len(text) == (folder / "log.jsonl").stat().st_size
        (folder / "log.jsonl").write_bytes(text)
        for number, path in enumerate(sorted(folder.glob("state-*"))):
            values, arrays = decode(path.read_bytes())
            arrays = {name: array.copy() for name, array in arrays.items()}
            log = values["log"]
            log["sha256"] = hashlib.sha256(text[: log["length"]]).hexdigest()
            log["open_sha256"] = hashlib.sha256(text[: log["open"]]).hexdigest()
            committed(number, Snapshot(values["run"], arrays))
            path.write_bytes(b"".join(encode(Snapshot(values, arrays))))
    for table in tables:
        (out / f"{table}.csv").write_text(frames.to_csv(tables[table], TABLE_COLUMNS[table]))
    rehashed(out)


def nudged(value: float) -> float:
    """Another number whose text is as long."""
    return next(
        x
        for d in "123456789"
        if (x := float(repr(value)[:-1] + d)) != value and len(repr(x)) == len(repr(value))
    )


def in_row(name, where, table, row):
    if table != where[0] or row["seed"] != 1:
        return
    if isinstance(row.get(where[1]), list):  # a stack of rows
        k = row[where[1]].index(where[2])
        row[name][k] = nudged(row[name][k])
    elif row.get(where[1]) == where[2]:
        row[name] = nudged(row[name])


def in_array(name, number, snapshot):
    if number == 1:
        result = next(array for key, array in snapshot.arrays.items() if key.startswith(name))
        result.reshape(-1).view(np.uint8)[0] ^= 1


def in_value(name, number, snapshot):
    if number == 1:
        snapshot.values[name] = {
            "first": "0" * 64,
            "empty": 1,
            "totals": {**snapshot.values["totals"], "bytes_up": 1},
        }[name]


DOCTORED = {
    "start row": ({"logged": partial(in_row, "test_loss", ("rounds", "round", 0))}, "round 1"),
    "last row": ({"logged": partial(in_row, "train_loss", ("rounds", "round", 5))}, "round 5"),
    "client": ({"logged": partial(in_row, "global_loss", ("clients", "client", 3))}, "round 5"),
    "server": ({"committed": partial(in_array, "server")}, "round 5"),
    "memory": ({"committed": partial(in_array, "memory.rows")}, "round 5"),
    "joined": ({"committed": partial(in_array, "joined")}, "round 5"),
    "first": ({"committed": partial(in_value, "first")}, "round 1"),
    "empty": ({"committed": partial(in_value, "empty")}, "round 5"),
    "totals": ({"committed": partial(in_value, "totals")}, "round 5"),
}


@pytest.mark.parametrize("change", DOCTORED)
@pytest.mark.long
def test_a_consistent_lie_is_caught_by_the_replay(change, mine):
    out = mine("scaffold")
    doctored(out)
    assert fedsim.verify(out).equal  # what is doctored fits as long as nothing is changed
    edits, where = DOCTORED[change]
    doctored(out, **edits)
    wrong = failed(fedsim.verify(out))
    assert f"seed 1, {where}" in wrong and all(name.startswith("seed") for name in wrong)


@pytest.mark.long
def test_a_lie_between_the_replayed_rounds_is_caught_by_a_whole_replay(mine):
    out = mine("scaffold")
    doctored(out, logged=partial(in_row, "train_loss", ("rounds", "round", 2)))
    assert fedsim.verify(out).equal
    wrong = failed(fedsim.verify(out, whole=True))
    assert list(wrong) == ["seed 1, rounds 1 to 5"]
    assert "round 2: train_loss: " in wrong["seed 1, rounds 1 to 5"]


@pytest.mark.long
def test_changed_client_memory_on_disk_is_caught(mine):
    """A row of the file that both the older commit and the end refer to, with a valid checksum."""
    out = mine("scaffold on disk")
    other = out / "checkpoints/scaffold.1/memory-0.rows"
    shutil.copyfile(out / "checkpoints/scaffold.0/memory-0.rows", other)
    rehashed(out)
    assert failed(fedsim.verify(out))


def test_a_doctored_model_table_or_scenario_is_caught(mine):
    out = mine("fedavg")
    shutil.copyfile(out / "model.fedavg.0.safetensors", out / "model.fedavg.1.safetensors")
    rehashed(out)
    assert "model.fedavg.1.safetensors: " in failed(fedsim.verify(out))["seed 1, round 5"]
    (out / "rounds.csv").write_text((out / "rounds.csv").read_text().replace("0,2,", "0,3,", 1))
    text = (out / "scenario.yaml").read_text()
    (out / "scenario.yaml").write_text(text.replace("lr: 0.1", "lr: 0.2"))
    rehashed(out)
    wrong = failed(fedsim.verify(out))
    assert list(wrong) == ["tables"]
    assert "rounds.csv differs from the logs, from line 3 on" in wrong["tables"]
    assert "scenario.yaml: client.lr: 0.2, in the record 0.1" in wrong["tables"]


def test_a_missing_row_is_caught(mine):
    out = mine("fedavg")

    def renumbered(table, row):
        if table in ("rounds", "timing") and row["round"] == 2:
            row["round"] = 3

    doctored(out, logged=renumbered)
    problem = "seed 0: rounds.csv does not have the rounds 0, 2, ... 5"
    assert problem in failed(fedsim.verify(out))["tables"]


def test_an_end_or_a_scenario_that_the_commits_do_not_confirm_is_caught(mine):
    out = mine("fedavg")
    scenario = directory.read_record(out)["scenario"]
    rehashed(out, status="stopped", reasons={"0": "round 3: not finite"})
    problem = "run.json and the last commits differ about how the run ended"
    assert problem in failed(fedsim.verify(out))["tables"]
    scenario["client"]["lr"] = 0.2
    rehashed(out, scenario=scenario)
    assert "client.lr: 0.1, in the record 0.2" in failed(fedsim.verify(out))["commits"]


def test_another_environment_is_named_and_nothing_is_replayed(made, monkeypatch):
    here = verification.numerical
    other = {"fedsim": "0.1.0", "jax": "9.9", "threads": 99}
    monkeypatch.setattr(verification, "numerical", lambda devices: {**here(devices), **other})
    result = fedsim.verify(made("fedavg"))
    assert not result.equal and not result.wrong
    assert list(failed(result)) == ["environment"] and result.checks[-1].name == "environment"
    assert "bits may differ in this environment" in result.checks[-1].detail
    for name, value in other.items():
        assert re.search(f'{name}: \\S+ here "?{value}', result.checks[-1].detail)


@pytest.mark.long
def test_the_verify_command_prints_checks_and_exits_with_their_code(root, tmp_path, own_kinds):
    plugin = shutil.copy(root / "tests/plugins/mine.py", tmp_path)  # others enable that one
    data = "{kind: two_points, clients: 4}"
    (tmp_path / "s.yaml").write_text(f"name: s\nrounds: 2\ndata: {data}\nserver: [loudest]\n")
    assert typed(f"run s.yaml --plugin {plugin} --out mine", tmp_path).returncode == 0
    done = typed(f"verify mine --plugin {plugin}", tmp_path)
    assert done.returncode == 0 and done.stderr == "", done.stdout
    assert done.stdout.count("ok   ") == 8, done.stdout
    assert " ".join(done.stdout.split()).endswith("is equal to what its record says")

    without = typed("verify mine --json", tmp_path, NPROC="4")  # a process without these kinds
    answer = json.loads(without.stdout)
    assert without.returncode == 2 and not answer["equal"] and not answer["wrong"]
    reason = "rule loudest is not part of fedsim; give its file with --plugin"
    assert reason in answer["checks"][-1]["detail"]


def test_a_comparison_without_its_partition_is_said_to_lack_it(root):
    """Then nobody is at chance level, and the verdicts of compare.csv are others."""
    checks = {check.name: check for check in fedsim.verify(root / "reports/known_results").checks}
    assert checks["record"].ok and not checks["compare.csv"].ok
    assert checks["compare.csv"].detail.endswith("summary.csv; partition.csv is missing")
