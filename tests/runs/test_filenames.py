"""Names in a run directory: no two labels share one, and names from before 0.6.0 stay."""

import json
import re
import shutil
from itertools import permutations
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import fedsim
from fedsim.runs import directory
from fedsim.runs.derive import rebuild
from fedsim.runs.filenames import RunFiles, names_in, names_of, run_files_of
from fedsim.runs.record_form import FILE_NAME
from fedsim.runs.unfinished import runs_of

# what labels are made of, in few letters, so that many labels come close to one another
LABELS = st.text(st.sampled_from("aA_1(=.,) -[|é"), max_size=12)
LONG = st.builds(lambda label, times: (label or "x") * times, LABELS, st.integers(8, 40))
LABEL = st.one_of(LABELS, LONG)


def lower(names):
    return [name.lower() for name in names]


@given(LABEL, LABEL)
@example("krum_f_1", "krum(f=1)")
@example("FedAvg", "fedavg")
@example("é", "ß")
@example("a" * 80, "a" * 81)
def test_two_labels_never_share_a_name(one, other):
    names = names_of([one, other])
    assert len(set(lower(names.values()))) == len({one, other})
    assert names == names_of([other, one])
    for name in names.values():
        assert len(name) <= 80 and re.fullmatch(r"[A-Za-z0-9_-]+", name)


@given(LABEL)
def test_a_single_label_gets_a_hash_only_if_its_name_is_too_long_or_empty(label):
    (name,) = names_of([label]).values()
    plain = re.sub(r"[^A-Za-z0-9]+", "-", label).strip("-")
    if 0 < len(plain) <= 80:
        assert name == plain
    else:
        assert re.search(r"_[0-9a-f]{8}$", name)


@given(st.lists(LABEL, unique=True, max_size=6), st.integers(0, 6))
def test_adding_labels_renames_nothing(labels, count):
    before = names_of(labels[:count])
    after = names_of(labels, before)
    assert before.items() <= after.items()
    assert len(set(lower(after.values()))) == len(labels)


@given(st.lists(LABEL, unique=True, max_size=4))
def test_names_do_not_depend_on_the_order_of_labels(labels):
    assert len({tuple(sorted(names_of(order).items())) for order in permutations(labels)}) == 1


@given(LABEL, LABEL)
def test_names_stay_in_their_folder(one, other):
    for name in names_of([one, other]).values():
        assert FILE_NAME.fullmatch(name)
        path = RunFiles(Path("runs"), {one: name}).folder(one, 0)
        assert path.parent == Path("runs/checkpoints")


BEFORE = {  # as 0.5.0 named them
    "fedavg": "fedavg",
    "multi_krum(f=6)": "multi-krum-f-6",
    "fedprox(mu=-0.1)": "fedprox-mu-0-1-3da1091f",
    "krum(f=1) client.lr=0.1": "krum-f-1-client-lr-0-1-5abb2791",
}


def compared(*labels, **more):
    return {"kind": "compare", "cells": [{"method": label} for label in labels], **more}


def test_names_of_earlier_versions_stay():
    assert names_in(compared(*BEFORE)) == BEFORE
    for label, name in BEFORE.items():
        assert names_in({"method": label}) == {label: name}
    more = names_of([*BEFORE, "fedprox(mu=0.1)", "multi_krum_f_6"], names_in(compared(*BEFORE)))
    assert BEFORE.items() <= more.items() and more["fedprox(mu=0.1)"] == "fedprox-mu-0-1"
    assert more["multi_krum_f_6"].startswith("multi-krum-f-6_")


def test_a_name_that_two_labels_once_shared_belongs_to_neither():
    names = names_in(compared("krum_f_1", "krum(f=1)", "fedavg"))
    assert names == names_of(["krum_f_1", "krum(f=1)", "fedavg"])
    assert "krum-f-1" not in names.values()


TINY = {
    "name": "tiny",
    "rounds": 2,
    "seeds": 2,
    "data": {"kind": "gaussian_blobs", "samples": 200, "clients": 6},
}
SHARING = [
    {"method": "median", "label": "krum_f_1"},
    "krum(f=1)",
    {"method": "fedavg", "label": "Krum(F=1)"},
]


@pytest.mark.long
@pytest.mark.parametrize("jobs", [1, 2])
def test_every_run_of_a_comparison_has_its_own_model_and_commits(jobs, tmp_path):
    out = tmp_path / "out"
    comparison = fedsim.compare(TINY, SHARING, out=out, jobs=jobs, pictures=False)
    run_files = run_files_of(out, directory.sound_record(out))
    assert len(list(out.glob("model.*"))) == len(list((out / "checkpoints").iterdir())) == 6
    for label in ("krum_f_1", "krum(f=1)", "Krum(F=1)"):
        for seed in (0, 1):
            saved = fedsim.load_model(run_files.model(label, seed))["params"]
            ours = comparison.model(label, seed)
            assert saved.keys() == ours.keys() and all(
                (saved[leaf] == ours[leaf]).all() for leaf in saved
            )
    assert fedsim.verify(out).equal
    again = fedsim.compare(TINY, [*SHARING, "median"], out=out, resume=True, pictures=False)
    assert len(list(out.glob("model.*"))) == 8 and again.status == "done"
    assert names_in(directory.sound_record(out)).items() >= run_files.names.items()


def made_before(out, names):
    """A run directory from before names were recorded."""
    record = directory.sound_record(out)
    run_files = run_files_of(out, record)
    for label, name in names.items():
        for seed in (0, 1):
            before = RunFiles(out, {label: name})
            run_files.folder(label, seed).rename(before.folder(label, seed))
            if run_files.model(label, seed).exists():
                run_files.model(label, seed).rename(before.model(label, seed))
    del record["names"]
    if "files" in record:
        record["files"] = directory.hashes(out)
    directory.write_record(out, record)


@pytest.mark.long
@pytest.mark.parametrize("stopped", [False, True])
def test_a_comparison_of_an_earlier_version_is_reported_and_resumes(stopped, tmp_path):
    methods = ["fedavg", "fedprox(mu=0.1)", {"method": "median", "label": "my median!"}]
    whole, out = tmp_path / "whole", tmp_path / "out"
    fedsim.compare({**TINY, "rounds": 4}, methods, out=whole, pictures=False)
    fedsim.compare(TINY, methods, out=out, pictures=False)
    before = names_in(compared("fedavg", "fedprox(mu=0.1)", "my median!"))
    assert before["my median!"] != names_of(["my median!"])["my median!"]
    made_before(out, before)
    if stopped:  # only the logs say what exists
        record = {**json.loads((out / "run.json").read_text()), "status": "interrupted"}
        del record["files"]
        directory.write_record(out, record)
    else:
        assert fedsim.verify(out).equal
    assert all(run.ended for run in runs_of(out, directory.sound_record(out)))
    rebuild(out)
    fedsim.compare({**TINY, "rounds": 4}, methods, out=out, resume=True, pictures=False)
    assert (out / "rounds.csv").read_bytes() == (whole / "rounds.csv").read_bytes()
    folders = {path.name.rpartition(".")[0] for path in (out / "checkpoints").iterdir()}
    assert folders == set(before.values())
    assert fedsim.diff(out, whole).models == []


@pytest.mark.long
def test_a_record_that_names_other_folders_is_damaged(tmp_path):
    out = tmp_path / "out"
    fedsim.run(TINY, seeds=1, out=out, pictures=False)
    assert directory.sound_record(out)["names"] == {"fedavg": "fedavg"}
    for name in ("../elsewhere", "", "a/b", "a" * 256):
        shutil.copytree(out, tmp_path / "other", dirs_exist_ok=True)
        directory.write_record(
            tmp_path / "other", {**directory.sound_record(out), "names": {"fedavg": name}}
        )
        assert fedsim.verify(tmp_path / "other").wrong
