"""Names in a run directory: no two labels share one."""

import re
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import fedsim
from fedsim.runs import directory
from fedsim.runs.filenames import RunFiles, names_in, names_of, run_files_of
from fedsim.runs.record_form import FILE_NAME

# what labels are made of, in few letters, so that many labels come close to one another
LABELS = st.text(st.sampled_from("aA_1(=.,) -[|é"), max_size=12)
LONG = st.builds(lambda label, times: (label or "x") * times, LABELS, st.integers(8, 40))
LABEL = st.one_of(LABELS, LONG)


def lower(names):
    return [name.lower() for name in names]


@settings(max_examples=40)
@given(LABEL, LABEL)
@example("krum_f_1", "krum(f=1)")
@example("FedAvg", "fedavg")
@example("é", "ß")
@example("a" * 80, "a" * 81)
def test_two_labels_never_share_a_name(one, other):
    names = names_of([one, other])
    assert len(set(lower(names.values()))) == len({one, other})
    assert names == names_of([other, one])
    for label, name in names.items():
        assert len(name) <= 80 and re.fullmatch(FILE_NAME, name)
        folder = RunFiles(Path("runs"), names).folder(label, 0)
        assert folder.parent == Path("runs/checkpoints")


@settings(max_examples=40)
@given(LABEL)
def test_a_single_label_gets_a_hash_only_if_its_name_is_too_long_or_empty(label):
    (name,) = names_of([label]).values()
    plain = re.sub(r"[^A-Za-z0-9]+", "-", label).strip("-")
    if 0 < len(plain) <= 80:
        assert name == plain
    else:
        assert re.search(r"_[0-9a-f]{8}$", name)


@settings(max_examples=40)
@given(st.lists(LABEL, unique=True, max_size=6), st.integers(0, 6))
def test_adding_labels_renames_nothing(labels, count):
    before = names_of(labels[:count])
    after = names_of(labels, before)
    assert before.items() <= after.items()
    assert len(set(lower(after.values()))) == len(labels)


TINY = {
    "name": "tiny",
    "rounds": 1,
    "seeds": 1,
    "data": {"kind": "gaussian_blobs", "samples": 200, "clients": 6},
}
SHARING = ["krum(f=1)", {"method": "fedavg", "label": "Krum(F=1)"}]


@pytest.mark.long
def test_every_run_of_a_comparison_has_its_own_model_and_commits(tmp_path):
    out = tmp_path / "out"
    comparison = fedsim.compare(TINY, SHARING, out=out, pictures=False)
    run_files = run_files_of(out, directory.sound_record(out))
    assert len(list(out.glob("model.*"))) == len(list((out / "checkpoints").iterdir())) == 2
    for label in ("krum(f=1)", "Krum(F=1)"):
        saved = fedsim.load_model(run_files.model(label, 0))["params"]
        ours = comparison.model(label, 0)
        assert saved.keys() == ours.keys()
        assert all((saved[leaf] == ours[leaf]).all() for leaf in saved)
    assert fedsim.verify(out).equal
    one_more = {"method": "fedavg", "label": "krum_f_1"}
    again = fedsim.compare(TINY, [*SHARING, one_more], out=out, resume=True)
    assert len(list(out.glob("model.*"))) == 3 and again.status == "done"
    assert names_in(directory.sound_record(out)).items() >= run_files.names.items()
